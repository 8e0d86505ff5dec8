/* `hostile-nf MODE`: a network function that attaches as the protocol asks, and then breaks its rules, those
 * of shared memory, or those of the machine, in one way. What becomes of it is in tests/tests/hostile. */
#include "foe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct mode *find(const struct mode *modes, const char *name)
{
    for (; modes->name; modes++)
        if (strcmp(modes->name, name) == 0)
            return modes;
    return NULL;
}

static void list(const struct mode *modes)
{
    for (; modes->name; modes++)
        printf("%s\n", modes->name);
}

int main(int count, char **arguments)
{
    const char *name = count > 1 ? arguments[1] : "list";
    if (strcmp(name, "list") == 0) {
        list(MEMORY_MODES);
        list(MACHINE_MODES);
        list(PROCESS_MODES);
        return 0;
    }
    if (count == 4 && (strcmp(name, "child") == 0 || strcmp(name, "escaped-child") == 0))
        return child(strcmp(name, "escaped-child") == 0, arguments + 2);
    const struct mode *mode = find(MEMORY_MODES, name);
    if (!mode)
        mode = find(MACHINE_MODES, name);
    if (!mode)
        mode = find(PROCESS_MODES, name);
    if (!mode) {
        fprintf(stderr, "hostile-nf: there is no mode %s; `hostile-nf list` names them\n", name);
        return 2;
    }
    static struct foe foe;
    if (mode->before)
        mode->before();
    attach(&foe);
    mode->attack(&foe);
    return 0;
}
