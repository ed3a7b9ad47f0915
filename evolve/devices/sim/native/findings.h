// Recording what went wrong. One record for each (kind, place); Python words it.
#pragma once

static Finding* findings;

static Finding* report(u64 kind, u64 pc, u64 line) {
    u64 rel = pc ? pc - (u64)image : 0;
    for (u64 i = 0; i < job->n_findings; i++)
        if (findings[i].kind == kind && findings[i].pc == rel && findings[i].line == line &&
            findings[i].launch == launch_no)
            return 0;
    if (job->n_findings >= job->max_findings) {
        stop_status = STOPPED;
        return 0;
    }
    Finding* f = &findings[job->n_findings++];
    fill_bytes(f, 0, sizeof *f);
    f->kind = kind;
    f->launch = launch_no;
    f->order = order_no;
    f->pc = rel;
    f->line = line;
    f->block_a = f->block_b = block_linear;
    f->thread_a = f->thread_b = cur;
    return f;
}

static Finding* report_access(u64 kind, u64 address, u64 size, bool write, u64 pc) {
    Finding* f = report(kind, pc, 0);
    if (!f) return 0;
    f->offset = address - ARENA;
    f->size = size;
    f->write = write;
    return f;
}

// Words of the current stack that may be return addresses into the program: Python keeps the first
// that has a source line. Used where no hook knows the place (timer, crash).
static void add_hints(Finding* f, u64 ip, u64 sp) {
    u64 n = 0;
    if (ip >= (u64)image && ip < (u64)image_end) f->hints[n++] = ip + 1 - (u64)image;
    if (sp >= (u64)stacks && sp < (u64)stacks_end) {
        u64 low = (u64)stacks + (sp - (u64)stacks) / job->stack_bytes * job->stack_bytes;
        u64 end = low + job->stack_bytes;
        if (sp < low + 4096) sp = low + 4096;          // below lies the guard page
        for (u64 a = (sp + 7) & ~7ull; a + 8 <= end && n < 16; a += 8) {
            u64 v = *(u64*)a;
            if (v >= (u64)image && v < (u64)image_end) f->hints[n++] = v - (u64)image;
        }
    }
    f->n_hints = n;
}
