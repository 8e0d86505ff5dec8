/* Attacks by processes: children that stay, ends and refusals without end, signals to others. */
#define _GNU_SOURCE
#include "foe.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    /* Lifetime of a child that escaped into a session: longer than a restart takes, shorter than the test. */
    ESCAPED_LIFE_MS = 700,
    /* Lifetime of one that did not and that nobody waits for: longer than a test waits for it. */
    FORGOTTEN_LIFE_MS = 300000,
    EXIT_EARLY = 7,
    EXIT_SOON = 9,
};

static void ignore_signals(void)
{
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
}

/* A process that does nothing for ever, in a session of its own or not, and that no signal but the last
 * ends. */
static void leave_behind(bool escapes)
{
    if (fork() != 0)
        return;
    if (escapes) {
        setsid();
        if (fork() != 0)
            _exit(0);
    }
    ignore_signals();
    for (;;)
        pause();
}

/* Children from before the manager heard of this process. */
static void leave_all_behind(void)
{
    leave_behind(false);
    leave_behind(true);
}

/* Works as it should; only its children stay. */
static void orphans(struct foe *foe)
{
    while (goes_on(foe))
        behave(foe);
}

/* Does not end when it is told to, and has children that do not either. */
static void stubborn(struct foe *foe)
{
    ignore_signals();
    leave_all_behind();
    while (true)
        behave(foe);
}

/* Makes processes as long as it may, each of which makes processes. */
static void bomb(struct foe *foe)
{
    behave_at_first(foe);
    pid_t parent = getpid();
    while (goes_on(foe)) {
        pid_t made = fork();
        if (made == 0)
            ignore_signals();
        if (getpid() == parent)
            behave(foe);
        else if (made < 0)
            sched_yield();
    }
}

/* Leaves two children behind that have its files, one of them in a session of its own, and goes. */
static void children(struct foe *foe)
{
    static const char *const kinds[] = {"child", "escaped-child"};
    char packets[16], control[16];
    behave_at_first(foe);
    fcntl(foe->packets_file, F_SETFD, 0);
    fcntl(foe->control_file, F_SETFD, 0);
    sprintf(packets, "%d", foe->packets_file);
    sprintf(control, "%d", foe->control_file);
    for (unsigned kind = 0; kind < 2; kind++)
        if (fork() == 0) {
            execl("/proc/self/exe", "hostile-nf", kinds[kind], packets, control, NULL);
            _exit(1);
        }
    exit(EXIT_SOON);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int child(bool escapes, char *const *files)
{
    struct foe foe = {.seed = getpid()};
    uint64_t end = now_ms() + (escapes ? ESCAPED_LIFE_MS : FORGOTTEN_LIFE_MS);
    if (escapes)
        setsid();
    while (now_ms() < end) {
        for (unsigned at = 0; at < 2; at++) {
            int file = atoi(files[at]);
            off_t bytes = lseek(file, 0, SEEK_END);
            uint64_t noise = word(&foe);
            if (bytes > 8)
                (void)!pwrite(file, &noise, sizeof noise, below(&foe, bytes - 8));
        }
        sched_yield();
    }
    return 0;
}

static void exit_at_once(void) { exit(EXIT_EARLY); }

/* Ends as soon as it is in service: an event each time, without end. */
static void exit_soon(struct foe *foe)
{
    uint64_t burst[BURST];
    some(foe, burst);
    exit(EXIT_SOON);
}

/* Refuses arguments, as the library says it. */
static void refuse(const struct foe *foe)
{
    static const char words[] = "{\"is\":\"goodbye\",\"reason\":\"no\",\"refused\":[{\"path\":[\"a\",7],"
                                "\"kind\":\"bad-value\",\"word\":\"\",\"known\":[],\"message\":\"no\"}]}";
    say(foe, words, sizeof words - 1);
    exit(4);
}

/* Some processes refuse their arguments as soon as they were welcomed, the others after they have worked. */
static void refuse_before(void)
{
    struct foe foe = {.socket = 0};
    char hello[64];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_nsec >> 4 & 1)
        return;
    int bytes = snprintf(hello, sizeof hello, "{\"is\":\"hello\",\"abi\":%d,\"name\":\"\"}", ABI_VERSION);
    say(&foe, hello, bytes);
    refuse(&foe);
}

static void refuse_late(struct foe *foe)
{
    behave_at_first(foe);
    refuse(foe);
}

/* Works, and kills every process that waits to be an NF, if it may: its own successor is of its user. */
static void kill_waiting(struct foe *foe)
{
    while (goes_on(foe)) {
        behave(foe);
        DIR *all = opendir("/proc");
        struct dirent *entry;
        while (all && (entry = readdir(all))) {
            char path[300], name[32] = "";
            pid_t pid = atoi(entry->d_name);
            snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
            FILE *file = pid > 0 ? fopen(path, "r") : NULL;
            /* Refused, where the kernel can. */
            if (file && fgets(name, sizeof name, file) && strcmp(name, "headgate-nfs\n") == 0)
                kill(pid, SIGKILL);
            if (file)
                fclose(file);
        }
        if (all)
            closedir(all);
    }
}

const struct mode PROCESS_MODES[] = {
    {"orphans", orphans, leave_all_behind},
    {"stubborn", stubborn, leave_all_behind},
    {"bomb", bomb, NULL},
    {"children", children, NULL},
    {"kill-waiting", kill_waiting, NULL},
    {"exit-at-once", exit_soon, exit_at_once},
    {"exit-soon", exit_soon, NULL},
    {"refuse-in-turns", refuse_late, refuse_before},
    {NULL, NULL, NULL},
};
