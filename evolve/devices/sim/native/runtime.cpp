// Host execution of device code: one OS thread, one fiber for each thread of a block.
//
// Built once for each compiler, without the sanitizer, and linked into every program. It calls libc
// only (no C++ library), so that it also links with `-nostdlib` and resolves against the loader's libc.
#include "job.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define EXPORT extern "C" __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#include "system.h"

// Fixed places, so that the hooks compare with constants. Low, for machines with 39-bit addresses.
static const u64 ARENA = 1ull << 36;
static const u64 SHARED_BASE = ARENA + (1 << 16);

struct Index { u32 x, y, z; };
extern "C" {
HIDDEN Index threadIdx, blockIdx, blockDim, gridDim;
}

enum State : u32 { READY, AT_BARRIER, AT_MEET, AT_MASK, DONE };
struct Fiber {
    void* sp;
    u32 state, site, line, mask;
    i64 source;
    u64 kind, value, result;
};

static Job* job;
static u8* file;
static Buffer* buffers;
static u64 mode, grain, grain_mask, arena_bytes;
static u8* state_map;                    // per granule: 1 addressable, 2 initialised, 4 read-only, 8 written, or IN_FLIGHT
static Fiber fibers[1024];
static Index thread_of[1024];
static u32 n_threads, cur;
static bool in_fiber;
static u64 block_linear, launch_no, order_no, accesses, quantum_left;
static u8 *stacks, *stacks_end, *image, *image_end;
static void* main_sp;
static void (*entry_fn)(const Arg*, int);
static Arg call_args[256];
static int call_n;
static u64 stop_status;                  // nonzero: abandon the run

extern "C" HIDDEN void ev_switch(void** save, void* to);
[[noreturn]] static void abandon(u64 status);

static void yield() { ev_switch(&fibers[cur].sp, main_sp); }
static Finding* report(u64 kind, u64 pc, u64 line);

#include "context.h"
#include "findings.h"
#include "check.h"
#include "fences.h"
#include "trace.h"
#include "hooks.h"
#include "copies.h"
#include "schedule.h"
#include "sandbox.h"
#include "main.h"
