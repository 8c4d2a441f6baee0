/* A disk that fails: loaded before libc, it breaks the k-th operation that changes files below a folder.

   fault_arm(at, kind, root) arms a process (0 only counts); fault_count() says how many operations there were. Kinds:
   0 the process is killed; 1 half of the bytes are written and it is killed; 2 ENOSPC; 3 EIO; 4 half of the bytes are
   written and the call says so. What is no write is killed by 1, and passes with 4. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int count, at, kind;
static char root[PATH_MAX];

void fault_arm(int k, int what, const char *folder) {
    snprintf(root, sizeof root, "%s", folder);
    atomic_store(&count, 0);
    atomic_store(&kind, what);
    atomic_store(&at, k);
}

int fault_count(void) { return atomic_load(&count); }

static int below(const char *path) {
    char full[PATH_MAX];
    if (!root[0] || !path) return 0;
    if (path[0] == '/') return strncmp(path, root, strlen(root)) == 0;
    return getcwd(full, sizeof full) && strncmp(full, root, strlen(root)) == 0;
}

static int of_file(int fd) {
    char link[64], path[PATH_MAX];
    if (!root[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return below(path);
}

static int due(void) { return atomic_fetch_add(&count, 1) + 1 == atomic_load(&at); }

static int fails(void) {
    switch (atomic_load(&kind)) {
    case 0:
    case 1: kill(getpid(), SIGKILL); pause();
    case 2: errno = ENOSPC; return 1;
    case 3: errno = EIO; return 1;
    }
    return 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define WRITES(name, more, args)                                                         \
    ssize_t name(int fd, const void *data, size_t size more) {                           \
        if (of_file(fd) && due()) {                                                      \
            int half = atomic_load(&kind) == 1 || atomic_load(&kind) == 4;               \
            ssize_t done = half && size > 1 ? (size /= 2, REAL(name) args) : 0;          \
            if (fails()) return -1;                                                      \
            return done > 0 ? done : REAL(name) args;                                    \
        }                                                                                \
        return REAL(name) args;                                                          \
    }
#define COMMA ,
WRITES(write, , (fd, data, size))
WRITES(pwrite, COMMA off_t where, (fd, data, size, where))
WRITES(pwrite64, COMMA off64_t where, (fd, data, size, where))

#define CHANGES(name, types, args, ours)                                                 \
    int name types {                                                                     \
        if ((ours) && due() && fails()) return -1;                                       \
        return REAL(name) args;                                                          \
    }
CHANGES(fsync, (int fd), (fd), of_file(fd))
CHANGES(fdatasync, (int fd), (fd), of_file(fd))
CHANGES(ftruncate, (int fd, off_t size), (fd, size), of_file(fd))
CHANGES(ftruncate64, (int fd, off64_t size), (fd, size), of_file(fd))
CHANGES(unlink, (const char *path), (path), below(path))
CHANGES(unlinkat, (int fd, const char *path, int flags), (fd, path, flags), of_file(fd) || below(path))
CHANGES(rmdir, (const char *path), (path), below(path))
CHANGES(mkdir, (const char *path, mode_t mode), (path, mode), below(path))
CHANGES(mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode), of_file(fd) || below(path))
CHANGES(rename, (const char *from, const char *to), (from, to), below(from))
CHANGES(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), of_file(a) || below(from))
CHANGES(link, (const char *from, const char *to), (from, to), below(to))
