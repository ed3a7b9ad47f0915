// The job: map the file, lay out the arena, run every launch in every order, write results back.
#pragma once

typedef void (*Entry)(const Arg*, int);

struct PhdrInfo { u64 base; const char* name; const void* headers; u16 count; };
struct Phdr64 { u32 type, flags; u64 offset, vaddr, paddr, filesz, memsz, align; };

static int find_image(void* info, size_t, void*) {
    PhdrInfo* p = (PhdrInfo*)info;
    const Phdr64* h = (const Phdr64*)p->headers;
    u64 lo = ~0ull, hi = 0, self = (u64)&find_image;
    for (u16 i = 0; i < p->count; i++) {
        if (h[i].type != 1) continue;
        if (p->base + h[i].vaddr < lo) lo = p->base + h[i].vaddr;
        if (p->base + h[i].vaddr + h[i].memsz > hi) hi = p->base + h[i].vaddr + h[i].memsz;
    }
    if (self < lo || self >= hi) return 0;
    image = (u8*)p->base;
    image_end = (u8*)hi;
    return 1;
}

// ---- signals: a timer and crashes end the run with a finding ------------------------------------
struct Action { void (*handler)(int, void*, void*); u64 mask[16]; int flags; void* restorer; };
struct AltStack { void* sp; int flags; size_t size; };
static u8 signal_stack[65536] __attribute__((aligned(16)));

static void on_signal(int sig, void* info, void* context) {
#if defined(__x86_64__)
    u64 ip = *(u64*)((u8*)context + 168), sp = *(u64*)((u8*)context + 160);
#else
    u64 ip = *(u64*)((u8*)context + 440), sp = *(u64*)((u8*)context + 432);
#endif
    bool timer = sig == 26 || sig == 14;
    if (!in_fiber && !timer) _exit(3);   // the runtime itself: a bug of ours, not of the program
    Finding* f = report(timer ? TIMEOUT : CRASH, 0, 0);
    if (f) {
        u64 at = *(u64*)((u8*)info + 16);
        f->extra = timer ? 0 : (u64)sig;
        if (!timer && at - (u64)stacks < (u64)(stacks_end - stacks)) f->extra = 2000;  // stack overflow
        add_hints(f, ip, sp);
    }
    job->accesses = accesses;
    job->status = STOPPED;
    _exit(0);
}

static void set_signals() {
    AltStack alt = {signal_stack, 0, sizeof signal_stack};
    sigaltstack(&alt, 0);
    const int signals[] = {4, 6, 7, 8, 11, 14, 26};
    for (int s : signals) {
        Action a;
        fill_bytes(&a, 0, sizeof a);
        a.handler = on_signal;
        a.flags = 4 | 0x08000000;
        sigaction(s, &a, 0);
    }
    u64 timer[4] = {0, 0, job->time_us / 1000000, job->time_us % 1000000};
    setitimer(1, timer, 0);
}

// ---- buffers ------------------------------------------------------------------------------------
static void reset_buffers() {
    for (u64 i = 0; i < job->n_buffers; i++) {
        Buffer* b = &buffers[i];
        u8* p = (u8*)ARENA + b->arena_off;
        bool poisoned = b->flags & BUF_POISONED;
        if (poisoned) fill_bytes(p, (u8)b->seed, b->bytes);
        else copy_bytes(p, file + b->data_off, b->bytes);
        if (mode != CHECK) continue;
        u8 st = poisoned ? 1 : (b->flags & BUF_READONLY) ? 7 : 3;
        fill_bytes(state_map + (b->arena_off >> grain), st, b->bytes >> grain);
    }
}

static void keep_results(bool first) {
    for (u64 i = 0; i < job->n_buffers; i++) {
        Buffer* b = &buffers[i];
        if (b->flags & BUF_READONLY) continue;
        u8 *p = (u8*)ARENA + b->arena_off, *out = file + b->out_off;
        if (first) {
            copy_bytes(out, p, b->bytes);
            if (mode == CHECK) copy_bytes(file + b->mask_off, state_map + (b->arena_off >> grain), b->bytes >> grain);
        } else {
            for (u64 k = 0; k < b->bytes; k++)
                if (out[k] != p[k]) { b->differs = 1; break; }
        }
    }
}

static bool map_memory() {
    u64 stacks_needed = 1;
    Launch* l = (Launch*)(file + job->off_launches);
    for (u64 i = 0; i < job->n_launches; i++)
        if (mode != PLAIN && l[i].bx * l[i].by * l[i].bz > stacks_needed) stacks_needed = l[i].bx * l[i].by * l[i].bz;
    if (stacks_needed > 1024) return false;
    if (!map_anonymous(ARENA, arena_bytes)) return false;
    stacks = (u8*)map_anonymous(0, stacks_needed * job->stack_bytes);
    if (!stacks) return false;
    stacks_end = stacks + stacks_needed * job->stack_bytes;
    for (u64 t = 0; t < stacks_needed; t++) mprotect(stacks + t * job->stack_bytes, 4096, PROT_NONE_);
    if (mode == CHECK) {
        state_map = (u8*)map_anonymous(0, arena_bytes >> grain);
        cells = (Cell*)map_anonymous(0, (arena_bytes >> grain) * sizeof(Cell));
        return state_map && cells;
    }
    if (mode == TRACE) {
        site_of = (u16*)map_anonymous(0, 2 * (u64)(image_end - image) + 4096);
        sectors = (Sector*)map_anonymous(0, (arena_bytes >> 5) * sizeof(Sector));
        page_ready = (u8*)map_anonymous(0, (arena_bytes >> 12) + 4096);
        return site_of && sectors && page_ready;
    }
    return true;
}

// ---- launches -----------------------------------------------------------------------------------
static u64 gcd(u64 a, u64 b) {
    while (b) { u64 t = a % b; a = b; b = t; }
    return a;
}

static void order_threads(Order* o) {
    for (u32 i = 0; i < n_threads; i++)
        thread_order[i] = (u16)(o->thread_order == 1 ? n_threads - 1 - i : i);
    if (o->thread_order != 2) return;
    for (u32 i = n_threads; i > 1; i--) {
        u32 j = (u32)(hash64(o->seed + i) % i);
        u16 t = thread_order[i - 1];
        thread_order[i - 1] = thread_order[j];
        thread_order[j] = t;
    }
}

static void run_launch(Launch* l, Order* o, void** entries) {
    launch = l;
    entry_fn = (Entry)entries[l->kernel];
    Arg* args = (Arg*)(file + l->off_args);
    call_n = (int)l->n_args;
    for (u64 i = 0; i < l->n_args; i++) {
        call_args[i] = args[i];
        if (args[i].kind == 0) call_args[i].value = ARENA + buffers[args[i].value].arena_off;
    }
    n_threads = mode == PLAIN ? 1 : (u32)(l->bx * l->by * l->bz);
    blockDim = {(u32)l->bx, (u32)l->by, (u32)l->bz};
    gridDim = {(u32)l->gx, (u32)l->gy, (u32)l->gz};
    for (u32 t = 0; t < n_threads; t++)
        thread_of[t] = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
    order_threads(o);
    parting = o->thread_order == 2 ? o->seed | 1 : 0;
    n_shared = 0;
    shared_end = SHARED_BASE;
    if (mode == CHECK) {
        madvise(cells, (arena_bytes >> grain) * sizeof(Cell), MADV_DONTNEED_);
        fill_bytes(state_map, 0, (SHARED_BASE - ARENA + job->shared_span) >> grain);
    }
    if (mode == TRACE) trace_new_launch();
    ev_shared(0, 0, 1);
    fences_new_launch();
    u64 blocks = mode == PLAIN ? 1 : l->gx * l->gy * l->gz, n = l->n_blocks ? l->n_blocks : blocks;
    u64* chosen = (u64*)(file + l->off_blocks);
    if (mode == CHECK && blocks > MAX_BLOCK) { stop_status = LIMIT; return; }
    u64 step = 1, start = 0;
    if (o->block_order == 2 && n > 2) {
        start = hash64(o->seed) % n;
        for (step = hash64(o->seed + 1) % n | 1; gcd(step, n) != 1; step++) {}
    }
    for (u64 i = 0; i < n && !stop_status; i++) {
        u64 k = o->block_order == 1 ? n - 1 - i : o->block_order == 2 ? (start + i * step) % n : i;
        run_block(l->n_blocks ? chosen[k] : k);
    }
    if (mode == TRACE) {
        launch_stats[launch_no].blocks = n;
        launch_stats[launch_no].warps = n * ((n_threads + 31) / 32);
    }
}

// Runs the job in `path`; `entries` are the launchers in the order of the job's kernel numbers.
EXPORT int ev_main(const char* path, void** entries, u64 bytes) {
    int fd = open(path, 2);
    if (fd < 0) return 2;
    file = (u8*)mmap(0, bytes, PROT_RW, MAP_SHARED_, fd, 0);
    close(fd);
    if (file == (u8*)-1) return 2;
    job = (Job*)file;
    mode = job->mode;
    grain = job->grain;
    grain_mask = (1u << grain) - 1;
    arena_bytes = job->arena_bytes;
    buffers = (Buffer*)(file + job->off_buffers);
    findings = (Finding*)(file + job->off_findings);
    site_stats = (SiteStats*)(file + job->off_sites);
    launch_stats = (LaunchStats*)(file + job->off_stats);
    dl_iterate_phdr(find_image, 0);
    job->status = STARTED;
    if (!map_memory()) {
        job->status = NO_MEMORY;
        return 0;
    }
    set_signals();
    close_system_calls();
    Order* orders = (Order*)(file + job->off_orders);
    Launch* launches = (Launch*)(file + job->off_launches);
    for (order_no = 0; order_no < job->n_orders && !stop_status; order_no++) {
        if (mode != TRACE) reset_buffers();
        for (launch_no = 0; launch_no < job->n_launches && !stop_status; launch_no++)
            run_launch(&launches[launch_no], &orders[order_no], entries);
        if (mode != TRACE) keep_results(order_no == 0);
        job->runs_done++;
    }
    job->accesses = accesses;
    job->status = stop_status ? stop_status : (u64)FINISHED;
    _exit(0);                            // the interpreter's own end would need system calls
}
