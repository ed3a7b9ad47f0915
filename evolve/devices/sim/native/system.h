// The few libc calls the runtime needs, declared here so that no system header is.
#pragma once

extern "C" {
void* mmap(void*, size_t, int, int, int, long);
int munmap(void*, size_t);
int mprotect(void*, size_t, int);
int madvise(void*, size_t, int);
int open(const char*, int, ...);
int close(int);
int prctl(int, ...);
void* realloc(void*, size_t);
void _exit(int) __attribute__((noreturn));
int sigaltstack(const void*, void*);
int sigaction(int, const void*, void*);
int setitimer(int, const void*, void*);
int dl_iterate_phdr(int (*)(void*, size_t, void*), void*);
}

enum { PROT_NONE_ = 0, PROT_RW = 3, MAP_SHARED_ = 1, MAP_PRIVATE_ = 2, MAP_FIXED_NOREPLACE_ = 0x100000,
       MAP_ANON_ = 0x20, MAP_NORESERVE_ = 0x4000, MADV_DONTNEED_ = 4 };

static void* map_anonymous(u64 at, u64 bytes) {
    int flags = MAP_PRIVATE_ | MAP_ANON_ | MAP_NORESERVE_ | (at ? MAP_FIXED_NOREPLACE_ : 0);
    void* p = mmap((void*)at, bytes, PROT_RW, flags, -1, 0);
    if (p == (void*)-1 || (at && (u64)p != at)) return 0;
    return p;
}

// Our own, because `memcpy` and `memset` in this object are hooks (hooks.h). Sizes are often whole words.
static void copy_bytes(void* to, const void* from, u64 n) {
    u64 i = 0;
    for (; i + 8 <= n; i += 8) *(u64*)((u8*)to + i) = *(const u64*)((const u8*)from + i);
    for (; i < n; i++) ((u8*)to)[i] = ((const u8*)from)[i];
}
static void fill_bytes(void* to, u8 v, u64 n) {
    u64 i = 0, word = v * 0x0101010101010101ull;
    for (; i + 8 <= n; i += 8) *(u64*)((u8*)to + i) = word;
    for (; i < n; i++) ((u8*)to)[i] = v;
}
