/* plugin_file.c: see plugin_file.h. An ELF file's symbols are found by its section headers, as linkers and `strip`
 * leave these; a symbol's bytes by the segment that its address is in. */
#define _GNU_SOURCE
#include "runtime/core/plugin_file.h"

#include <elf.h>
#include <sinter/plugin.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/hash.h"

enum { MARK = 8, DIGEST = 16, SEAL = 32, MAX_NAME = 200 };

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_NONE };
#endif

typedef struct ElfFile {
    const char *what, *at;
    size_t n;
    Elf64_Ehdr head;
    const char *strings; /* of the symbols */
    size_t n_strings;
    Elf64_Shdr symbols;
} ElfFile;

static Status refuse_plugin(const ElfFile *file, Status status, const char *why) {
    return error_raise(status, "plug-in '%.300s': %s", file->what, why);
}

static Status damaged(const ElfFile *file, const char *why) {
    return error_raise(ST_PARSE, "plug-in '%.300s' is damaged or cut off: %s", file->what, why);
}

/* n bytes from `offset` on, copied: tables need not be aligned. */
static bool read_at(const ElfFile *file, uint64_t offset, void *to, size_t n) {
    if (offset > file->n || n > file->n - offset) return false;
    memcpy(to, file->at + offset, n);
    return true;
}

static bool in_file(const ElfFile *file, uint64_t offset, uint64_t n) {
    return offset <= file->n && n <= file->n - offset;
}

static Status read_head(ElfFile *file) {
    Elf64_Ehdr *const head = &file->head;
    if (file->n < SELFMAG || memcmp(file->at, ELFMAG, SELFMAG) != 0)
        return refuse_plugin(file, ST_PARSE, "it is no ELF file");
    if (!read_at(file, 0, head, sizeof *head)) return damaged(file, "its head is not whole");
    if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB || head->e_machine != MACHINE)
        return refuse_plugin(file, ST_UNSUPPORTED, "it is for another machine");
    if (head->e_ident[EI_VERSION] != EV_CURRENT || head->e_ehsize != sizeof *head ||
        head->e_phentsize != sizeof(Elf64_Phdr) || head->e_shentsize != sizeof(Elf64_Shdr))
        return damaged(file, "its head has sizes that no ELF file has");
    if (head->e_type != ET_DYN) return refuse_plugin(file, ST_PARSE, "it is no shared library");
    if (!in_file(file, head->e_phoff, head->e_phnum * sizeof(Elf64_Phdr)) ||
        !in_file(file, head->e_shoff, head->e_shnum * sizeof(Elf64_Shdr)))
        return damaged(file, "its tables lie outside of it");
    return ST_OK;
}

static Elf64_Phdr segment_at(const ElfFile *file, int i) {
    Elf64_Phdr segment;
    memcpy(&segment, file->at + file->head.e_phoff + (size_t)i * sizeof segment, sizeof segment);
    return segment;
}

static Elf64_Shdr section_at(const ElfFile *file, int i) {
    Elf64_Shdr section;
    memcpy(&section, file->at + file->head.e_shoff + (size_t)i * sizeof section, sizeof section);
    return section;
}

static Status check_segments(const ElfFile *file) {
    int loads = 0, dynamics = 0;
    for (int i = 0; i < file->head.e_phnum; i++) {
        const Elf64_Phdr segment = segment_at(file, i);
        if (segment.p_type == PT_INTERP) return refuse_plugin(file, ST_PARSE, "it is a program, no shared library");
        loads += segment.p_type == PT_LOAD;
        dynamics += segment.p_type == PT_DYNAMIC;
        const bool placed = segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC || segment.p_type == PT_NOTE;
        if (!placed) continue;
        if (!in_file(file, segment.p_offset, segment.p_filesz) || segment.p_filesz > segment.p_memsz ||
            segment.p_memsz > (uint64_t)1 << 40 || segment.p_vaddr > (uint64_t)1 << 46)
            return damaged(file, "a segment lies outside of it");
    }
    return loads && dynamics == 1 ? ST_OK : damaged(file, "it has no segments to load");
}

/* Where an address's bytes are in the file; false: in none of its segments. */
static bool offset_in_file(const ElfFile *file, uint64_t address, uint64_t n, uint64_t *out) {
    for (int i = 0; i < file->head.e_phnum; i++) {
        const Elf64_Phdr segment = segment_at(file, i);
        const uint64_t at = address - segment.p_vaddr;
        if (segment.p_type != PT_LOAD || address < segment.p_vaddr || at > segment.p_filesz ||
            n > segment.p_filesz - at)
            continue;
        *out = segment.p_offset + at;
        return in_file(file, *out, n);
    }
    return false;
}

static Status find_symbols(ElfFile *file) {
    int i = 0;
    while (i < file->head.e_shnum && section_at(file, i).sh_type != SHT_DYNSYM) i++;
    if (i == file->head.e_shnum) return refuse_plugin(file, ST_PARSE, "it has no table of symbols");
    file->symbols = section_at(file, i);
    if (file->symbols.sh_link >= file->head.e_shnum) return damaged(file, "its symbols have no names");
    const Elf64_Shdr strings = section_at(file, (int)file->symbols.sh_link);
    if (!in_file(file, file->symbols.sh_offset, file->symbols.sh_size) ||
        !in_file(file, strings.sh_offset, strings.sh_size) || strings.sh_type != SHT_STRTAB || !strings.sh_size ||
        file->at[strings.sh_offset + strings.sh_size - 1])
        return damaged(file, "its symbols lie outside of it");
    file->strings = file->at + strings.sh_offset;
    file->n_strings = strings.sh_size;
    return ST_OK;
}

/* A defined one of this type; NULL strings end inside, so names do. */
static bool find_symbol(const ElfFile *file, const char *name, int type, Elf64_Sym *out) {
    const uint64_t n = file->symbols.sh_size / sizeof *out;
    for (uint64_t i = 0; i < n; i++) {
        read_at(file, file->symbols.sh_offset + i * sizeof *out, out, sizeof *out);
        if (out->st_name >= file->n_strings || out->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(out->st_info) != type)
            continue;
        if (!strcmp(file->strings + out->st_name, name)) return true;
    }
    return false;
}

/* version ------------------------------------------------------------------------------------- */

static Status refuse_version(const ElfFile *file, uint32_t version, const char *why) {
    return error_raise(
        ST_UNSUPPORTED, "plug-in '%.300s' was built for Sinter %u.%u (ABI %u), this is %d.%d (ABI %d): %s", file->what,
        version >> 16 & 255, version >> 8 & 255, version >> 24, SN_VERSION >> 16, SN_VERSION >> 8 & 255, SN_ABI, why);
}

static Status check_version(const ElfFile *file, uint32_t *out) {
    Elf64_Sym symbol, start;
    uint64_t at;
    uint32_t version;
    if (!find_symbol(file, "sn_plugin_version", STT_OBJECT, &symbol))
        return refuse_plugin(file, ST_PARSE,
                             "it is no plug-in: it defines no sn_plugin_version (SN_PLUGIN, sinter/plugin.h)");
    if (symbol.st_size != sizeof version || !offset_in_file(file, symbol.st_value, sizeof version, &at) ||
        !read_at(file, at, &version, sizeof version))
        return damaged(file, "sn_plugin_version has no value");
    if (version >> 24 != SN_ABI) return refuse_version(file, version, "another ABI");
    if ((version >> 16 & 255) != SN_VERSION >> 16) return refuse_version(file, version, "another major version");
    if ((version >> 8 & 255) > (SN_VERSION >> 8 & 255)) return refuse_version(file, version, "the plug-in is newer");
    if (!find_symbol(file, "sn_plugin_start", STT_FUNC, &start))
        return refuse_plugin(file, ST_PARSE, "it is no plug-in: it defines no function sn_plugin_start");
    *out = version;
    return ST_OK;
}

/* Another libsinter would be a second library with ops and states of its own. */
static Status check_needed(const ElfFile *file) {
    for (int i = 0; i < file->head.e_phnum; i++) {
        const Elf64_Phdr segment = segment_at(file, i);
        Elf64_Dyn entry = {.d_tag = DT_NEEDED};
        for (uint64_t at = 0; segment.p_type == PT_DYNAMIC && at + sizeof entry <= segment.p_filesz;
             at += sizeof entry) {
            if (!read_at(file, segment.p_offset + at, &entry, sizeof entry) || entry.d_tag == DT_NULL) break;
            if (entry.d_tag != DT_NEEDED) continue;
            if (entry.d_un.d_val >= file->n_strings) return damaged(file, "a library that it needs has no name");
            const char *const name = file->strings + entry.d_un.d_val;
            if (strncmp(name, "libsinter.so.", 13) != 0 || strtol(name + 13, NULL, 10) == SN_ABI) continue;
            return error_raise(ST_UNSUPPORTED, "plug-in '%.300s' needs %.*s, this is libsinter.so.%d: another ABI",
                               file->what, MAX_NAME, name, SN_ABI);
        }
    }
    return ST_OK;
}

/* seal ---------------------------------------------------------------------------------------- */

/* Of all bytes but its own. */
static void digest_of(const ElfFile *file, uint64_t mark, uint64_t digest[2]) {
    const char *const behind = file->at + mark + MARK + DIGEST;
    for (int i = 0; i < 2; i++) {
        const uint64_t before = hash_bytes(UINT64_C(0x53696e746572) + (uint64_t)i, file->at, mark + MARK);
        digest[i] = hash_bytes(before, behind, file->n - (size_t)(behind - file->at)) | 1; /* 0: not sealed */
    }
}

/* Plug-ins of 0.1 have none: half of one is what damage has left. */
enum { FIRST_WITH_MARK = 0x000200 };
static Status without_mark(const ElfFile *file, uint32_t version) {
    if ((version & 0xffffff) >= FIRST_WITH_MARK)
        return damaged(file, "sn_plugin_mark is missing, which SN_PLUGIN defines");
    const char *const half = SN_PLUGIN_MARK; /* its first seven characters are both halves' */
    if (memmem(file->at, file->n, half, MARK - 1))
        return damaged(file, "it has the mark of a seal that no symbol names");
    return ST_OK;
}

/* *found: it has a mark, at *mark. */
static Status find_mark(const ElfFile *file, uint32_t version, bool *found, uint64_t *mark) {
    static const char whole[SEAL] = SN_PLUGIN_MARK;
    Elf64_Sym symbol;
    *found = find_symbol(file, "sn_plugin_mark", STT_OBJECT, &symbol);
    if (!*found) return without_mark(file, version);
    if (symbol.st_size != SEAL || !offset_in_file(file, symbol.st_value, SEAL, mark) ||
        memcmp(file->at + *mark, whole, MARK) ||
        memcmp(file->at + *mark + MARK + DIGEST, whole + MARK + DIGEST, SEAL - MARK - DIGEST))
        return damaged(file, "the mark of its seal is not one");
    return ST_OK;
}

static Status check_seal(const ElfFile *file, uint32_t version) {
    bool found;
    uint64_t mark, digest[2], sealed[2];
    TRY(find_mark(file, version, &found, &mark));
    if (!found) return ST_OK;
    memcpy(sealed, file->at + mark + MARK, DIGEST);
    if (!sealed[0] && !sealed[1]) return ST_OK;
    digest_of(file, mark, digest);
    return memcmp(digest, sealed, DIGEST) ? damaged(file, "it was changed after it was sealed") : ST_OK;
}

static Status look(ElfFile *file, const char *what, const char *bytes, size_t n) {
    *file = (ElfFile){.what = what, .at = bytes, .n = n};
    TRY(read_head(file));
    TRY(check_segments(file));
    return find_symbols(file);
}

Status plugin_file_check(const char *what, const char *bytes, size_t n) {
    ElfFile file;
    uint32_t version;
    TRY(look(&file, what, bytes, n));
    TRY(check_version(&file, &version));
    TRY(check_needed(&file));
    return check_seal(&file, version);
}

Status plugin_file_seal(const char *what, char *bytes, size_t n) {
    ElfFile file;
    bool found;
    uint32_t version;
    uint64_t mark, digest[2];
    TRY(look(&file, what, bytes, n));
    TRY(check_version(&file, &version));
    TRY(find_mark(&file, version, &found, &mark));
    if (!found) return refuse_plugin(&file, ST_PARSE, "it has no place for a seal: it was built without SN_PLUGIN");
    digest_of(&file, mark, digest);
    memcpy(bytes + mark + MARK, digest, DIGEST);
    return ST_OK;
}
