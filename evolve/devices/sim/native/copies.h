// Asynchronous copies: started, on their way, and there at the wait that covers their group.
//
// While a copy is on its way nobody may touch its target, not even the thread that started it: the place is
// marked unaddressable and IN_FLIGHT, so that every access takes the slow path of check.h and is reported as
// a race. The bytes arrive at the wait, as a write of that moment; what no wait covers never arrives.
#pragma once

struct Copy { u64 to, pc; u32 bytes, group; u8 data[16]; };
struct Copies { Copy* list; u32 n, capacity, committed; };
static Copies copies[1024];

static void copies_new_block() {
    for (u32 t = 0; t < n_threads; t++) copies[t].n = copies[t].committed = 0;
}

static void mark(u64 to, u32 bytes, bool on_its_way) {
    if (mode != CHECK) return;
    u64 off = to - ARENA;
    for (u64 i = off >> grain, e = (off + bytes) >> grain; i < e; i++) {
        if (on_its_way && (state_map[i] & 1)) state_map[i] = (state_map[i] & ~1) | IN_FLIGHT;
        else if (!on_its_way && (state_map[i] & IN_FLIGHT)) state_map[i] = (state_map[i] & ~IN_FLIGHT) | 1;
    }
}

extern "C" {
HIDDEN void ev_copy_start(void* to, const void* from, size_t bytes, void* pc) {
    if (bytes != 4 && bytes != 8 && bytes != 16) abandon(BAD_CALL);
    access<false>((void*)from, bytes, bytes, 0, (u64)pc);
    // Read and write are one call in the text; where accesses are told apart by place they get one each.
    access<true>(to, bytes, bytes, 0, (u64)pc - (mode == TRACE));
    Copies* mine = &copies[cur];
    if (mine->n == mine->capacity) {
        u32 capacity = mine->capacity ? mine->capacity * 2 : 64;
        Copy* grown = (Copy*)realloc(mine->list, capacity * sizeof(Copy));
        if (!grown) abandon(NO_MEMORY);
        mine->list = grown;
        mine->capacity = capacity;
    }
    Copy* c = &mine->list[mine->n++];
    c->to = (u64)to;
    c->pc = (u64)pc;
    c->bytes = (u32)bytes;
    c->group = mine->committed;
    copy_bytes(c->data, from, bytes);
    mark(c->to, c->bytes, true);
}

HIDDEN void ev_copy_commit(void) { copies[cur].committed++; }

HIDDEN void ev_copy_wait(int pending) {
    Copies* mine = &copies[cur];
    u32 kept = 0;
    for (u32 i = 0; i < mine->n; i++) {
        Copy* c = &mine->list[i];
        if (c->group + (u32)pending >= mine->committed) {
            mine->list[kept++] = *c;
            continue;
        }
        mark(c->to, c->bytes, false);
        if (mode == CHECK) access<true>((void*)c->to, c->bytes, c->bytes, 0, c->pc);
        copy_bytes((void*)c->to, c->data, c->bytes);
    }
    mine->n = kept;
}
}
