// Blocks and threads: who runs when, barriers, and warp collectives.
#pragma once

struct Shared { u64 id, bytes, at, from; };  // `from`: its offset in dynamic shared memory, if it is there
static Shared shared_arrays[64];
static u32 n_shared;
static u16 thread_order[1024];
static Launch* launch;

[[noreturn]] static void abandon(u64 status) {
    stop_status = status;
    ev_switch(&fibers[cur].sp, main_sp);
    __builtin_unreachable();
}

static void resume(u32 t) {
    cur = t;
    threadIdx = thread_of[t];
    set_stamp();
    quantum_left = job->quantum;
    in_fiber = true;
    ev_switch(&main_sp, fibers[t].sp);
    in_fiber = false;
}

// ---- warp collectives -------------------------------------------------------------------------
enum { SYNCWARP = 1, SHFL, BALLOT, ADD_I, ADD_U, MIN_I, MIN_U, MAX_I, MAX_U, AND, OR, XOR, MATCH };

static u32 warp_lanes(u32 warp) { return n_threads - warp * 32 >= 32 ? 32 : n_threads - warp * 32; }

static u64 fold(u64 kind, u64 a, u64 b) {
    i64 x = (int)a, y = (int)b;
    u32 u = (u32)a, v = (u32)b;
    switch (kind) {
    case ADD_I: case ADD_U: return u + v;
    case MIN_I: return (u64)(x < y ? x : y);
    case MAX_I: return (u64)(x > y ? x : y);
    case MIN_U: return u < v ? u : v;
    case MAX_U: return u > v ? u : v;
    case AND: return u & v;
    case OR: return u | v;
    default: return u ^ v;
    }
}

// All live lanes of the mask are here: give each its result and let it run.
static void complete(u32 warp, u32 mask, u64 kind) {
    Fiber* w = &fibers[warp * 32];
    u32 present = 0, ballot = 0, first = 32;
    for (u32 l = 0; l < warp_lanes(warp); l++) {
        if (!((mask >> l) & 1) || w[l].state == DONE) continue;
        present |= 1u << l;
        if (w[l].value) ballot |= 1u << l;
        if (first == 32) first = l;
    }
    u64 total = w[first].value;
    for (u32 l = first + 1; l < 32; l++)
        if ((present >> l) & 1) total = fold(kind, total, w[l].value);
    for (u32 l = 0; l < 32; l++) {
        if (!((present >> l) & 1)) continue;
        if (kind == SHFL) {
            u32 src = (u32)w[l].source & 31;
            if ((present >> src) & 1) {
                w[l].result = w[src].value;
            } else {
                w[l].result = 0x7ff4dead7fa0deadull;
                Finding* f = report(SHUFFLE, 0, w[l].line);
                if (f) {
                    f->thread_a = warp * 32 + l;
                    f->thread_b = warp * 32 + src;
                    f->extra = src >= warp_lanes(warp) ? 3 : w[src].state == DONE ? 1 : 2;
                }
            }
        } else if (kind == BALLOT) {
            w[l].result = ballot;
        } else if (kind == MATCH) {
            w[l].result = 0;
            for (u32 m = 0; m < 32; m++)
                if (((present >> m) & 1) && w[m].value == w[l].value) w[l].result |= 1u << m;
        } else {
            w[l].result = total;
        }
    }
    if (kind == SYNCWARP) sync_lanes(warp, present);
    if (mode == TRACE) {
        if (kind == SYNCWARP) launch_stats[launch_no].syncwarps++;
        else launch_stats[launch_no].shuffles++;
    }
    for (u32 l = 0; l < 32; l++)
        if ((present >> l) & 1) w[l].state = READY;
}

static bool try_complete(u32 warp, u32 mask, u64 kind) {
    Fiber* w = &fibers[warp * 32];
    for (u32 l = 0; l < warp_lanes(warp); l++)
        if (((mask >> l) & 1) && w[l].state != DONE &&
            (w[l].state != AT_MEET || w[l].mask != mask || w[l].kind != kind))
            return false;
    complete(warp, mask, kind);
    return true;
}

extern "C" HIDDEN u64 ev_meet(int kind, u32 mask, u64 value, int source, int line) {
    Fiber* f = &fibers[cur];
    u32 warp = cur >> 5;
    if (!((mask >> (cur & 31)) & 1)) {
        Finding* x = report(SHUFFLE, 0, (u64)line);
        if (x) x->extra = 4;
        abandon(STOPPED);
    }
    f->state = AT_MEET;
    f->kind = (u64)kind;
    f->mask = mask;
    f->value = value;
    f->source = source;
    f->line = (u32)line;
    if (!try_complete(warp, mask, (u64)kind)) yield();
    set_stamp();
    return f->result;
}

// Which lanes are together is for the hardware to say. Here those that ask at one place when no lane of the
// warp can do anything else; in a permuted order only a part of them, for nothing may rely on more.
extern "C" HIDDEN u32 ev_active_mask(int line) {
    Fiber* f = &fibers[cur];
    f->state = AT_MASK;
    f->value = (u64)__builtin_return_address(0);
    f->line = (u32)line;
    yield();
    set_stamp();
    return (u32)f->result;
}

static u64 parting;   // seed of the parts; 0: all lanes stay together

static bool same_part(u32 a, u32 b) {
    return !parting || ((hash64(parting + a) ^ hash64(parting + b)) & 1) == 0;
}

// Some lanes that ask for their mask get it. False: none does.
static bool converge(u32 warp) {
    Fiber* w = &fibers[warp * 32];
    u32 first = 0, together = 0, lanes = warp_lanes(warp);
    while (first < lanes && w[first].state != AT_MASK) first++;
    for (u32 l = first; l < lanes; l++)
        if (w[l].state == AT_MASK && w[l].value == w[first].value && same_part(first, l)) together |= 1u << l;
    for (u32 l = first; l < lanes; l++) {
        if (!((together >> l) & 1)) continue;
        w[l].result = together;
        w[l].state = READY;
    }
    return together != 0;
}

// ---- block barriers ---------------------------------------------------------------------------
extern "C" HIDDEN int ev_barrier(int kind, int predicate, int site, int line) {
    Fiber* f = &fibers[cur];
    f->state = AT_BARRIER;
    f->site = (u32)site;
    f->line = (u32)line;
    f->kind = (u64)kind;
    f->value = (u64)predicate;
    yield();
    return (int)f->result;
}

// Nobody can run. Release the barrier, or say why it cannot be. False: the block is over.
static bool release() {
    u32 waiting = 0, done = 0, count = 0, a = 0, b = 0;
    for (u32 t = 0; t < n_threads; t++) {
        Fiber* f = &fibers[t];
        if (f->state == DONE) { done++; b = t; continue; }
        if (f->state == AT_MEET) {
            // A lane of its mask is elsewhere: at a barrier, at another collective.
            u32 other = t, why = 5;
            for (u32 l = 0; l < warp_lanes(t >> 5); l++) {
                Fiber* o = &fibers[(t & ~31u) + l];
                if (((f->mask >> l) & 1) && o->state != DONE &&
                    (o->state != AT_MEET || o->mask != f->mask || o->kind != f->kind)) {
                    other = (t & ~31u) + l;
                    why = o->state == AT_BARRIER ? 5 : 6;
                }
            }
            Finding* x = report(SHUFFLE, 0, f->line);
            if (x) {
                x->thread_a = t;
                x->thread_b = other;
                x->other_line = fibers[other].line;
                x->extra = why;
            }
            stop_status = STOPPED;
            return false;
        }
        if (!waiting++) a = t;
        count += (u32)f->value;
    }
    if (!waiting) return false;
    for (u32 t = 0; t < n_threads; t++) {
        Fiber* f = &fibers[t];
        if (f->state != AT_BARRIER || f->site == fibers[a].site) continue;
        Finding* x = report(DIVERGENT_BARRIER, 0, fibers[a].line);
        if (x) {
            x->thread_a = a;
            x->thread_b = t;
            x->other_line = f->line;
        }
        stop_status = STOPPED;
        return false;
    }
    if (done) {
        Finding* x = report(DIVERGENT_BARRIER, 0, fibers[a].line);
        if (x) {
            x->thread_a = a;
            x->thread_b = b;
            x->extra = 1;
        }
    }
    next_epoch();
    fences_at_barrier();
    if (mode == TRACE) launch_stats[launch_no].barriers++;
    for (u32 t = 0; t < n_threads; t++) {
        Fiber* f = &fibers[t];
        if (f->state != AT_BARRIER) continue;
        f->result = f->kind == 1 ? count : f->kind == 2 ? count == waiting : count != 0;
        f->state = READY;
    }
    return true;
}

// ---- one block --------------------------------------------------------------------------------
static void thread_main() {
    entry_fn(call_args, call_n);
    fibers[cur].state = DONE;
    u32 warp = cur >> 5;
    for (u32 l = 0; l < warp_lanes(warp); l++) {
        Fiber* f = &fibers[warp * 32 + l];
        if (f->state == AT_MEET && ((f->mask >> (cur & 31)) & 1)) try_complete(warp, f->mask, f->kind);
    }
    yield();
}

static const u64 REDZONE = 256;

static void reset_shared(Shared* s) {
    if (mode != CHECK) return;
    u64 first = (s->at - ARENA) >> grain, n = s->bytes >> grain;
    fill_bytes(state_map + first, 1, n);
    fill_bytes(cells + first, 0, n * sizeof(Cell));
}

static const u64 NOT_DYNAMIC = ~0ull;

static void* known_shared(u64 id, u64 bytes) {
    for (u32 i = 0; i < n_shared; i++)
        if (shared_arrays[i].id == id && shared_arrays[i].bytes == bytes) return (void*)shared_arrays[i].at;
    return 0;
}

static void* new_shared(u64 id, u64 bytes, u64 at, u64 from) {
    if (n_shared == 64 || n_shared >= job->max_shared || at + bytes + REDZONE > SHARED_BASE + job->shared_span)
        abandon(LIMIT);
    Shared* s = &shared_arrays[n_shared];
    s->id = id;
    s->bytes = bytes;
    s->at = at;
    s->from = from;
    SharedArray* out = (SharedArray*)(file + job->off_shared) + n_shared;
    out->id = s->id;
    out->bytes = bytes;
    out->offset = at - ARENA;
    job->n_shared = ++n_shared;
    shared_end = at + bytes;
    if (mode == TRACE && from == NOT_DYNAMIC) launch_stats[launch_no].shared_bytes += bytes;
    reset_shared(s);
    return (void*)at;
}

extern "C" HIDDEN void* ev_shared(int id, size_t bytes, size_t align) {
    if (id == 0) bytes = launch->shared;
    void* known = known_shared((u64)id, bytes);
    if (known) return known;
    if (align < 128) align = 128;
    return new_shared((u64)id, bytes, (shared_end + REDZONE + align - 1) & ~(align - 1), NOT_DYNAMIC);
}

// An array that the text lays at an offset of dynamic shared memory. It gets a place of its own, aligned as
// there, so that who leaves it is seen; that the launch has it, and no other array, is looked at here.
extern "C" HIDDEN void* ev_placed(int id, size_t offset, size_t bytes, int line) {
    void* known = known_shared((u64)id, bytes);
    if (known) return known;
    bool apart = offset + bytes <= launch->shared;
    for (u32 i = 0; i < n_shared; i++) {
        Shared* s = &shared_arrays[i];
        if (s->from != NOT_DYNAMIC && s->from < offset + bytes && offset < s->from + s->bytes) apart = false;
    }
    if (!apart) {
        Finding* f = report(CRASH, 0, (u64)line);
        if (f) f->extra = 1001;
    }
    u64 at = ((shared_end + REDZONE + 127) & ~127ull) + offset % 128;
    return new_shared((u64)id, bytes, at, offset);
}

static void run_block(u64 linear) {
    block_linear = linear;
    blockIdx.x = (u32)(linear % launch->gx);
    blockIdx.y = (u32)(linear / launch->gx % launch->gy);
    blockIdx.z = (u32)(linear / launch->gx / launch->gy);
    epoch = 0;
    next_epoch();
    fences_new_block();
    copies_new_block();
    sector_stamp++;
    for (u32 i = 0; i < n_shared; i++) reset_shared(&shared_arrays[i]);
    for (u32 t = 0; t < n_threads; t++) {
        fibers[t].state = READY;
        fibers[t].value = 0;
        fibers[t].sp = fresh_context(stacks + (u64)(t + 1) * job->stack_bytes - 64, thread_main);
    }
    do {
        if (mode == TRACE) {
            // A whole warp to its next barrier, so that its requests can be put together.
            for (u32 w = 0; w * 32 < n_threads && !stop_status; w++) {
                for (bool again = true; again;) {
                    again = false;
                    for (u32 t = w * 32; t < w * 32 + warp_lanes(w); t++)
                        if (fibers[t].state == READY) {
                            again = true;
                            resume(t);
                            if (stop_status) return;
                        }
                    again |= converge(w);
                }
                flush_warp();
            }
        } else {
            for (bool again = true; again;) {
                again = false;
                for (u32 i = 0; i < n_threads; i++) {
                    u32 t = thread_order[i];
                    if (fibers[t].state != READY) continue;
                    again = true;
                    resume(t);
                    if (stop_status) return;
                }
                if (!again)
                    for (u32 w = 0; w * 32 < n_threads; w++) again |= converge(w);
            }
        }
    } while (release() && !stop_status);
}
