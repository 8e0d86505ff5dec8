/* Attacks on the socket, on the core and on the kernel: what is neither shared memory nor a process. */
#define _GNU_SOURCE
#include "foe.h"

#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- messages --- */

static void garbage_messages(struct foe *foe)
{
    static char noise[2 * MESSAGE_MAX];
    behave_at_first(foe);
    while (goes_on(foe)) {
        behave(foe);
        size_t bytes = below(foe, sizeof noise);
        for (size_t at = 0; at + 8 <= bytes; at += 8) {
            uint64_t random = word(foe);
            memcpy(noise + at, &random, 8);
        }
        say(foe, noise, bytes);
    }
}

/* Sends a message with files. Returns false where the kernel lets none through. */
static bool say_with(const struct foe *foe, const char *text, const int *files, unsigned count)
{
    char space[CMSG_SPACE(8 * sizeof(int))] = {0};
    struct iovec part = {(void *)text, strlen(text)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), files, count * sizeof(int));
    return sendmsg(foe->socket, &message, MSG_NOSIGNAL) >= 0;
}

/* Sound messages of all kinds as fast as the socket takes them, the longest among them. */
static void many_messages(struct foe *foe)
{
    static char longest[MESSAGE_MAX], names[MESSAGE_MAX];
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "{\"is\":\"message\",\"body\":\"", 24);
    memcpy(longest + sizeof longest - 2, "\"}", 2);
    int bytes = sprintf(names, "{\"is\":\"counters\",\"names\":[\"c\"");
    for (unsigned name = 0; name < 1000; name++)
        bytes += sprintf(names + bytes, ",\"counter %u\"", name);
    bytes += sprintf(names + bytes, "]}");
    static const char ready[] = "{\"is\":\"ready\",\"lend\":4294967295}";
    static const char goodbye[] = "{\"is\":\"goodbye\",\"reason\":\"not yet\"}";
    while (goes_on(foe)) {
        behave(foe);
        /* A socket that is full would block the attack, not the manager. */
        send(foe->socket, longest, sizeof longest, MSG_NOSIGNAL | MSG_DONTWAIT);
        send(foe->socket, names, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        send(foe->socket, ready, sizeof ready - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        send(foe->socket, goodbye, sizeof goodbye - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* Sends hellos again and again and never reads an answer. */
static void many_hellos(struct foe *foe)
{
    char hello[64];
    int bytes = snprintf(hello, sizeof hello, "{\"is\":\"hello\",\"abi\":%d,\"name\":\"me\"}", ABI_VERSION);
    behave_at_first(foe);
    while (goes_on(foe) && say(foe, hello, bytes))
        behave(foe);
    while (goes_on(foe))
        sched_yield();
}

/* A TCP connection to a listener of its own, full of what nobody reads, whose close is to wait. -1 if it may
 * have none. */
static int lingering(int listener)
{
    struct sockaddr_in there;
    socklen_t length = sizeof there;
    struct linger wait = {.l_onoff = 1, .l_linger = 30};
    static char much[1 << 20];
    int sender = socket(AF_INET, SOCK_STREAM, 0);
    if (getsockname(listener, (struct sockaddr *)&there, &length)
        || connect(sender, (struct sockaddr *)&there, length)) {
        close(sender);
        return -1;
    }
    setsockopt(sender, SOL_SOCKET, SO_LINGER, &wait, sizeof wait);
    while (send(sender, much, sizeof much, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
        ;
    return sender;
}

/* A socket in whose queue a file waits that nobody has received: another such socket, and so on. */
static int queue_of_files(const struct foe *foe)
{
    int inner = dup(foe->packets_file);
    for (unsigned depth = 0; depth < 16; depth++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
            break;
        const struct foe other = {.socket = pair[0]};
        say_with(&other, "x", &inner, 1);
        close(inner);
        close(pair[0]);
        inner = pair[1];
    }
    return inner;
}

/* Messages with files whose close takes its time. Where the kernel lets them through, that is an offence. */
static void files(struct foe *foe)
{
    behave_at_first(foe);
    while (goes_on(foe)) {
        behave(foe);
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        (void)!listen(listener, 1);
        int sender = lingering(listener);
        int given[] = {queue_of_files(foe), foe->control_file, sender};
        const char *text = "{\"is\":\"message\",\"body\":\"a present\"}";
        bool arrives = say_with(foe, text, given, sender < 0 ? 2 : 3);
        close(given[0]);
        /* Refused, this is the last one of it: without a listener its close waits for nobody. */
        if (!arrives)
            close(listener);
        if (sender >= 0)
            close(sender);
        if (arrives)
            close(listener);
    }
}

/* --- the machine --- */

/* Wants every core but its own, and spins there. */
static void leave_core(struct foe *foe)
{
    cpu_set_t others;
    behave_at_first(foe);
    int own = sched_getcpu();
    while (goes_on(foe)) {
        for (int core = 0; core < 64; core++) {
            CPU_ZERO(&others);
            CPU_SET(core, &others);
            if (core != own)
                sched_setaffinity(0, sizeof others, &others);
        }
        behave(foe);
    }
}

/* Takes memory until it gets no more. */
static void balloon(struct foe *foe)
{
    const size_t bytes = 16 << 20;
    behave_at_first(foe);
    while (goes_on(foe)) {
        void *more = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more != MAP_FAILED)
            memset(more, 1, bytes);
        behave(foe);
    }
}

/* Ends, by name, if a call succeeded that must not. */
static void must_fail(const char *name, long result)
{
    if (result < 0)
        return;
    fprintf(stderr, "hostile-nf: escaped: %s\n", name);
    exit(ESCAPED);
}

/* Calls that lead to rights, to other processes or into the kernel. */
static void calls(struct foe *foe)
{
    struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE, .size = sizeof event};
    pid_t parent = getppid();
    char name[64], byte;
    struct iovec ours = {&byte, 1}, theirs = {(void *)name, 1};
    behave_at_first(foe);
    must_fail("unshare", syscall(SYS_unshare, 0x10000000 /* CLONE_NEWUSER */));
    must_fail("ptrace", syscall(SYS_ptrace, PTRACE_SEIZE, parent, 0, 0));
    must_fail("process_vm_readv", syscall(SYS_process_vm_readv, parent, &ours, 1, &theirs, 1, 0));
    must_fail("bpf", syscall(SYS_bpf, 0, name, sizeof name));
    must_fail("perf_event_open", syscall(SYS_perf_event_open, &event, parent, -1, -1, 0));
    must_fail("keyctl", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1));
    must_fail("userfaultfd", syscall(SYS_userfaultfd, 0));
    must_fail("setuid", setuid(0));
    must_fail("kill", kill(parent, SIGKILL));
    must_fail("setpriority", syscall(SYS_setpriority, 0, 0, -20));
    snprintf(name, sizeof name, "/proc/%d/mem", parent);
    must_fail("memory of the manager", open(name, O_RDWR));
    while (goes_on(foe))
        behave(foe);
}

const struct mode MACHINE_MODES[] = {
    {"garbage-messages", garbage_messages, NULL},
    {"many-messages", many_messages, NULL},
    {"many-hellos", many_hellos, NULL},
    {"files", files, NULL},
    {"leave-core", leave_core, NULL},
    {"balloon", balloon, NULL},
    {"calls", calls, NULL},
    {NULL, NULL, NULL},
};
