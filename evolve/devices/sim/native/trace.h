// Memory traffic as the hardware would see it: warp requests, sectors, shared-memory wavefronts.
//
// The k-th dynamic execution of one access site by the lanes of a warp, between two barriers, is one
// request. Sites are return addresses. Contents of buffers come from a hash of the element index,
// one page at a time, when first touched.
#pragma once

struct Request { u64 address[32]; u32 mask; };
struct Site { Request* requests; u32 n, capacity, count[32], size; u64 stats; bool queued; };
struct Sector { u32 read_stamp, read_bytes, write_stamp, write_bytes; u8 set_read, set_write; };

static const u32 MAX_SITES = 4096;
static Site sites[MAX_SITES];
static u16* site_of;                       // by pc - image; 0: not seen yet
static u32 n_sites, queue[MAX_SITES], n_queued;
static SiteStats* site_stats;
static LaunchStats* launch_stats;
static Sector* sectors;                    // of the arena's global part, 32 bytes each
static u8* page_ready;
static u32 sector_stamp;                   // one for each sampled block
static Buffer* last_buffer;
static u64 shared_end;                     // first address after the allocated shared arrays

static inline u64 hash64(u64 x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// Fill codes: 0 zeros, 1 f32 and 2 f64 uniform in [-1, 1), 3 integers of `elem` bytes in [lo, hi], 4 what
// the job file holds.
static void fill_page(Buffer* b, u64 page) {
    u64 begin = ARENA + b->arena_off, from = page << 12, end = begin + b->bytes;
    if (from < begin) from = begin;
    u64 to = (page + 1) << 12;
    if (to > end) to = end;
    if (b->fill == 4) {
        copy_bytes((u8*)from, file + b->data_off + (from - begin), to - from);
        return;
    }
    for (u64 a = from; a + b->elem <= to; a += b->elem) {
        u64 h = hash64(b->seed * 0x100000001b3ull + (a - begin) / b->elem);
        if (b->fill == 1) *(float*)a = (float)(i64)(h >> 40) * (1.0f / 8388608.0f) - 1.0f;
        else if (b->fill == 2) *(double*)a = (double)(i64)(h >> 11) * (1.0 / 4503599627370496.0) - 1.0;
        else if (b->fill == 3) {
            u64 v = (u64)b->lo + h % ((u64)(b->hi - b->lo) + 1);
            for (u64 i = 0; i < b->elem; i++) ((u8*)a)[i] = (u8)(v >> (8 * i));
        }
    }
}

static Buffer* find_buffer(u64 a) {
    for (u64 i = 0; i < job->n_buffers; i++)
        if (a - ARENA - buffers[i].arena_off < buffers[i].bytes) return &buffers[i];
    return 0;
}

static __attribute__((noinline)) u32 new_site(u64 rel, u64 size, bool write, bool shared) {
    if (n_sites + 1 >= MAX_SITES || job->n_sites >= job->max_sites) abandon(LIMIT);
    u32 id = ++n_sites;
    site_of[rel] = (u16)id;
    sites[id].size = (u32)size;
    sites[id].stats = job->n_sites++;
    SiteStats* st = &site_stats[sites[id].stats];
    st->pc = rel;
    st->launch = launch_no;
    st->space = shared;
    st->write = write;
    st->size = size;
    return id;
}

static void trace_access(u64 a, u64 size, bool write, u64 pc) {
    bool shared = a < SHARED_BASE + job->shared_span;
    if (shared) {
        if (UNLIKELY(a < SHARED_BASE || a + size > shared_end)) {
            report_access(OUT_OF_BOUNDS, a, size, write, pc);
            abandon(STOPPED);
        }
    } else {
        if (UNLIKELY(!last_buffer || a - ARENA - last_buffer->arena_off >= last_buffer->bytes)) {
            last_buffer = find_buffer(a);
            if (!last_buffer) {
                report_access(OUT_OF_BOUNDS, a, size, write, pc);
                abandon(STOPPED);
            }
        }
        u64 page = a >> 12, index = page - (ARENA >> 12);
        if (UNLIKELY(!page_ready[index])) {
            page_ready[index] = 1;
            fill_page(last_buffer, page);
        }
    }
    if (UNLIKELY(a & (size - 1))) {
        report_access(MISALIGNED, a, size, write, pc);
        return;
    }
    u64 rel = pc - (u64)image;
    u32 id = site_of[rel];
    if (UNLIKELY(!id)) id = new_site(rel, size, write, shared);
    Site* s = &sites[id];
    u32 lane = cur & 31, k = s->count[lane]++;
    if (k >= s->n) {
        if (k >= s->capacity) {
            u32 capacity = s->capacity ? s->capacity * 2 : 64;
            Request* grown = (Request*)realloc(s->requests, capacity * sizeof(Request));
            if (!grown) abandon(NO_MEMORY);
            s->requests = grown;
            s->capacity = capacity;
        }
        s->requests[k].mask = 0;
        s->n = k + 1;
        if (!s->queued) {
            s->queued = true;
            queue[n_queued++] = id;
        }
    }
    s->requests[k].address[lane] = a;
    s->requests[k].mask |= 1u << lane;
}

// Distinct 32-byte sectors of one request, and the block's footprint. Requests at k differ by lane.
// Adds the request's 128-byte lines and, of a store, those with a sector that it fills only in part.
static u32 count_sectors(Request* r, u32 size, bool write, SiteStats* st, LaunchStats* ls) {
    u64 seen[32], line[32];
    u32 filled[32], n = 0, lines = 0;
    for (u32 l = 0; l < 32; l++) {
        if (!((r->mask >> l) & 1)) continue;
        u64 a = r->address[l], sector = (a - ARENA) >> 5;
        u32 bytes = (size >= 32 ? 0xffffffffu : ((1u << size) - 1)) << (a & 31);
        u32 i = n;
        while (i > 0 && seen[i - 1] != sector) i--;
        if (i == 0) {
            seen[n] = sector;
            filled[n++] = bytes;
        } else filled[i - 1] |= bytes;
        Sector* s = &sectors[sector];
        if (write) {
            if (s->write_stamp != sector_stamp) {
                s->write_stamp = sector_stamp;
                s->write_bytes = 0;
                ls->block_sectors_written++;
                if (!s->set_write) ls->set_sectors_written++;
                s->set_write = 1;
            }
            ls->block_bytes_written += __builtin_popcount(bytes & ~s->write_bytes);
            s->write_bytes |= bytes;
        } else {
            if (s->read_stamp != sector_stamp) {
                s->read_stamp = sector_stamp;
                s->read_bytes = 0;
                ls->block_sectors_read++;
                if (!s->set_read) ls->set_sectors_read++;
                s->set_read = 1;
            }
            ls->block_bytes_read += __builtin_popcount(bytes & ~s->read_bytes);
            s->read_bytes |= bytes;
        }
    }
    bool partial[32];
    for (u32 i = 0; i < n; i++) {
        u32 j = lines;
        while (j > 0 && line[j - 1] != seen[i] >> 2) j--;
        if (j == 0) {
            line[lines] = seen[i] >> 2;
            partial[lines++] = false;
            j = lines;
        }
        if (filled[i] != 0xffffffffu) partial[j - 1] = true;
    }
    st->lines += lines;
    if (write) for (u32 j = 0; j < lines; j++) st->partial_lines += partial[j];
    return n;
}

// Whether lanes in pairs want the same address: each lane and the one beside it, or each and the one beyond that.
static bool in_pairs(const Request* r, u32 base, u32 lanes, u32 apart) {
    for (u32 l = base; l < base + lanes; l++) {
        u32 other = l ^ apart;
        if (((r->mask >> l) & 1) != ((r->mask >> other) & 1)) return false;
        if (((r->mask >> l) & 1) && r->address[l] != r->address[other]) return false;
    }
    return true;
}

// Lanes that are served together: all for 4 bytes; for 8 half a warp and for 16 a quarter, twice as many where
// the lanes of a load come in pairs (clocks of an H200; benchmarks/results/shared-loads-h200.json).
static u32 lanes_together(const Request* r, u32 size, bool write, u32 base) {
    u32 lanes = size >= 16 ? 8 : size == 8 ? 16 : 32;
    if (write || lanes == 32 || base % (2 * lanes)) return lanes;
    return in_pairs(r, base, 2 * lanes, 1) || in_pairs(r, base, 2 * lanes, 2) ? 2 * lanes : lanes;
}

// 32 banks of 4 bytes; lanes that want the same word are served together. `ideal` counts the passes without
// any conflict.
static u32 count_wavefronts(Request* r, u32 size, bool write, u64* ideal) {
    u32 words = size >= 4 ? size / 4 : 1, total = 0;
    for (u32 base = 0, group; base < 32; base += group) {
        group = lanes_together(r, size, write, base);
        u64 word[32 * 4];
        u32 n = 0, worst = 0;
        u8 load[32] = {0};
        for (u32 l = base; l < base + group; l++) {
            if (!((r->mask >> l) & 1)) continue;
            for (u32 w = 0; w < words; w++) {
                u64 v = (r->address[l] - SHARED_BASE) / 4 + w;
                bool dup = false;
                for (u32 i = n; i-- > 0;)
                    if (word[i] == v) { dup = true; break; }
                if (dup) continue;
                word[n++] = v;
                if (++load[v & 31] > worst) worst = load[v & 31];
            }
        }
        total += worst;
        *ideal += worst != 0;
    }
    return total;
}

static void flush_warp() {
    LaunchStats* ls = &launch_stats[launch_no];
    for (u32 q = 0; q < n_queued; q++) {
        Site* s = &sites[queue[q]];
        SiteStats* st = &site_stats[s->stats];
        st->requests += s->n;
        for (u32 k = 0; k < s->n; k++) {
            Request* r = &s->requests[k];
            u32 lanes = (u32)__builtin_popcount(r->mask);
            st->lanes += lanes;
            st->bytes += (u64)lanes * s->size;
            if (st->space) st->wavefronts += count_wavefronts(r, s->size, st->write, &st->ideal);
            else st->sectors += count_sectors(r, s->size, st->write, st, ls);
        }
        if (!st->space) (st->write ? ls->requests_store : ls->requests_load) += s->n;
        s->n = 0;
        s->queued = false;
        for (u32 l = 0; l < 32; l++) s->count[l] = 0;
    }
    n_queued = 0;
}

static void trace_new_launch() {
    for (u32 i = 1; i <= n_sites; i++) {
        SiteStats* st = &site_stats[sites[i].stats];
        site_of[st->pc] = 0;
        sites[i].capacity = 0;
        realloc(sites[i].requests, 0);
        sites[i].requests = 0;
    }
    n_sites = 0;
    // The footprint of the sampled set is counted for each launch.
    u64 bytes = (arena_bytes >> 5) * sizeof(Sector);
    madvise(sectors, bytes, MADV_DONTNEED_);
}
