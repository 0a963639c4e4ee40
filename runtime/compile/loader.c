/* loader.c: sections of an ELF64 relocatable object to executable memory.
 *
 *   one mapping:  [ code sections | pages | constant sections | pages ]
 *                   becomes r-x             becomes r--
 *
 * Every offset and index read from the object is checked before use: objects come from a disk cache
 * and may be damaged. Since all sections share one mapping, 32-bit relative relocations always
 * reach; the three memory functions are reached through jump slots at the end of the code. */
#include "runtime/compile/loader.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/core/jit_symbols.h"

enum { MAX_OBJECT = 1 << 30, SLOT_BYTES = 16 };

typedef struct Symbol {
    char *name;
    void *address;
    size_t bytes;
    bool exported; /* else it is there for jit_symbols only */
} Symbol;

struct LoadedCode {
    uint8_t *base;
    size_t bytes, code_bytes; /* mapped; executable part, whole pages */
    Symbol *symbols;
    int n_symbols;
    JitCode *told;
};

typedef struct Object {
    const uint8_t *at;
    size_t bytes;
    const Elf64_Ehdr *header;
    Elf64_Shdr *sections; /* a copy, aligned */
    int n_sections;
    size_t *place; /* per section: offset in the mapping, or NOWHERE */
    const Elf64_Shdr *symtab;
    const char *strings;
    size_t strings_bytes, n_symbols;
    size_t slots; /* offset of the jump slots */
    LoadedCode *code;
    BailCode why; /* a load fails, unless said otherwise */
} Object;

#define NOWHERE SIZE_MAX

static const char *const import_names[] = {"memcpy", "memmove", "memset"};
static void *import_address(int i) {
    void *(*const copy)(void *, const void *, size_t) = memcpy;
    void *(*const move)(void *, const void *, size_t) = memmove;
    void *(*const set)(void *, int, size_t) = memset;
    return i == 0 ? (void *)copy : i == 1 ? (void *)move : (void *)set;
}

static bool inside_object(const Object *o, uint64_t offset, uint64_t bytes) {
    return offset <= o->bytes && bytes <= o->bytes - offset;
}

static Status refuse_object(const char *what) { return error_raise(ST_IO, "loading code: %s", what); }

static bool is_ours(const Elf64_Ehdr *h) {
    return !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
           h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_type == ET_REL && h->e_machine == EM_X86_64 &&
           h->e_shentsize == sizeof(Elf64_Shdr);
}

static Status read_sections(Object *o) {
    if (o->bytes < sizeof(Elf64_Ehdr) || o->bytes > MAX_OBJECT) return refuse_object("the object is truncated");
    o->header = (const Elf64_Ehdr *)o->at;
    if (!is_ours(o->header)) return refuse_object("not a relocatable x86-64 object");
    o->n_sections = o->header->e_shnum;
    const size_t bytes = sizeof(Elf64_Shdr) * (size_t)o->n_sections;
    if (o->n_sections == 0 || !inside_object(o, o->header->e_shoff, bytes))
        return refuse_object("the section table is truncated");
    o->sections = mem_alloc(bytes);
    o->place = mem_alloc(sizeof(size_t) * (size_t)o->n_sections);
    if (!o->sections || !o->place) return ST_MEMORY;
    memcpy(o->sections, o->at + o->header->e_shoff, bytes);
    for (int i = 0; i < o->n_sections; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        o->place[i] = NOWHERE;
        if (s->sh_type != SHT_NOBITS && s->sh_type != SHT_NULL && !inside_object(o, s->sh_offset, s->sh_size))
            return refuse_object("a section is truncated");
    }
    return ST_OK;
}

static Status read_symbols(Object *o) {
    for (int i = 0; i < o->n_sections; i++)
        if (o->sections[i].sh_type == SHT_SYMTAB) o->symtab = &o->sections[i];
    if (!o->symtab) return refuse_object("no symbol table");
    if (o->symtab->sh_entsize != sizeof(Elf64_Sym) || o->symtab->sh_link >= (uint32_t)o->n_sections)
        return refuse_object("the symbol table is damaged");
    const Elf64_Shdr *names = &o->sections[o->symtab->sh_link];
    if (names->sh_type != SHT_STRTAB || names->sh_size == 0) return refuse_object("the symbol table has no names");
    o->strings = (const char *)o->at + names->sh_offset;
    o->strings_bytes = names->sh_size;
    if (o->strings[o->strings_bytes - 1] != 0) return refuse_object("the symbol names are not terminated");
    o->n_symbols = o->symtab->sh_size / sizeof(Elf64_Sym);
    return ST_OK;
}

static bool is_loaded(const Elf64_Shdr *s) {
    const bool holds = s->sh_type == SHT_PROGBITS || s->sh_type == SHT_NOBITS;
    return holds && (s->sh_flags & SHF_ALLOC) && s->sh_size > 0;
}

/* Places either the code or the constants after *at. */
static Status place_sections(Object *o, bool code, size_t *at) {
    for (int i = 0; i < o->n_sections; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        if (!is_loaded(s) || ((s->sh_flags & SHF_EXECINSTR) != 0) != code) continue;
        if (s->sh_flags & (SHF_WRITE | SHF_TLS)) return refuse_object("the object has writable data");
        const uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
        if ((align & (align - 1)) || align > 4096) return refuse_object("a section has a strange alignment");
        if (s->sh_size > MAX_OBJECT) return refuse_object("a section is too large");
        *at = (size_t)round_up((int64_t)*at, (int64_t)align);
        o->place[i] = *at;
        *at += s->sh_size;
        if (*at > MAX_OBJECT) return refuse_object("the sections are too large");
    }
    return ST_OK;
}

/* By the system: limits, or a policy against memory that turns executable. */
static Status refuse_memory(Object *o, const char *what) {
    o->why = BAIL_exec_memory;
    return error_raise(ST_MEMORY, "loading code: %s", what);
}

static Status map_sections(Object *o) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    LoadedCode *code = o->code;
    size_t at = 0;
    TRY(place_sections(o, true, &at));
    o->slots = at = (size_t)round_up((int64_t)at, SLOT_BYTES);
    at += SLOT_BYTES * (size_t)COUNT_OF(import_names);
    at = code->code_bytes = (size_t)round_up((int64_t)at, page);
    TRY(place_sections(o, false, &at));
    const size_t bytes = (size_t)round_up((int64_t)at, page);
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return refuse_memory(o, "no memory for its pages");
    code->base = base;
    code->bytes = bytes;
    for (int i = 0; i < o->n_sections; i++)
        if (o->place[i] != NOWHERE && o->sections[i].sh_type == SHT_PROGBITS)
            memcpy(code->base + o->place[i], o->at + o->sections[i].sh_offset, o->sections[i].sh_size);
    return ST_OK;
}

/* jmp *[rip + 0]; the address follows. */
static void write_slots(const Object *o) {
    static const uint8_t jump[6] = {0xff, 0x25, 0, 0, 0, 0};
    for (int i = 0; i < COUNT_OF(import_names); i++) {
        uint8_t *slot = o->code->base + o->slots + SLOT_BYTES * (size_t)i;
        void *const address = import_address(i);
        memcpy(slot, jump, sizeof jump);
        memcpy(slot + sizeof jump, &address, sizeof address);
    }
}

static Elf64_Sym symbol_at(const Object *o, size_t i) {
    Elf64_Sym symbol;
    memcpy(&symbol, o->at + o->symtab->sh_offset + i * sizeof symbol, sizeof symbol);
    return symbol;
}

static const char *symbol_name(const Object *o, const Elf64_Sym *symbol) {
    return symbol->st_name < o->strings_bytes ? o->strings + symbol->st_name : "";
}

static Status import(const Object *o, const char *name, uint64_t *address) {
    for (int i = 0; i < COUNT_OF(import_names); i++) {
        if (strcmp(name, import_names[i])) continue;
        *address = (uint64_t)(o->code->base + o->slots + SLOT_BYTES * (size_t)i);
        return ST_OK;
    }
    return error_raise(ST_UNSUPPORTED, "loading code: undefined symbol '%.64s'", name);
}

static Status symbol_address(const Object *o, size_t i, uint64_t *address) {
    if (i >= o->n_symbols) return refuse_object("a relocation names no symbol");
    const Elf64_Sym symbol = symbol_at(o, i);
    if (symbol.st_shndx == SHN_UNDEF) return import(o, symbol_name(o, &symbol), address);
    if (symbol.st_shndx >= o->n_sections || o->place[symbol.st_shndx] == NOWHERE)
        return refuse_object("a relocation names a section that is not loaded");
    if (symbol.st_value > o->sections[symbol.st_shndx].sh_size)
        return refuse_object("a symbol lies outside its section");
    *address = (uint64_t)(o->code->base + o->place[symbol.st_shndx]) + symbol.st_value;
    return ST_OK;
}

static int field_bytes(uint32_t type) {
    switch (type) {
    case R_X86_64_64:
    case R_X86_64_PC64:
        return 8;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
        return 4;
    default:
        return 0;
    }
}

static Status relocate(const Object *o, const Elf64_Shdr *target, size_t place, const Elf64_Rela *rela) {
    const uint32_t type = (uint32_t)ELF64_R_TYPE(rela->r_info);
    const int bytes = field_bytes(type);
    if (bytes == 0) return error_raise(ST_UNSUPPORTED, "loading code: relocation type %u is not known", type);
    if (rela->r_offset > target->sh_size || target->sh_size - rela->r_offset < (uint64_t)bytes)
        return refuse_object("a relocation lies outside its section");
    uint64_t value = 0;
    TRY(symbol_address(o, ELF64_R_SYM(rela->r_info), &value));
    uint8_t *const field = o->code->base + place + rela->r_offset;
    value += (uint64_t)rela->r_addend;
    if (type != R_X86_64_64) value -= (uint64_t)field;
    if (bytes == 4 && (int64_t)value != (int32_t)value) return refuse_object("a relocation does not reach");
    memcpy(field, &value, (size_t)bytes);
    return ST_OK;
}

static Status relocate_section(const Object *o, const Elf64_Shdr *s) {
    if (s->sh_info >= (uint32_t)o->n_sections) return refuse_object("a relocation section is damaged");
    const size_t place = o->place[s->sh_info];
    if (place == NOWHERE) return ST_OK; /* of a section that is not loaded */
    if (s->sh_type == SHT_REL || s->sh_entsize != sizeof(Elf64_Rela))
        return refuse_object("relocations without addends");
    for (size_t i = 0; i < s->sh_size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela rela;
        memcpy(&rela, o->at + s->sh_offset + i * sizeof rela, sizeof rela);
        TRY(relocate(o, &o->sections[s->sh_info], place, &rela));
    }
    return ST_OK;
}

static Status relocate_all(const Object *o) {
    for (int i = 0; i < o->n_sections; i++) {
        const uint32_t type = o->sections[i].sh_type;
        if (type == SHT_RELA || type == SHT_REL) TRY(relocate_section(o, &o->sections[i]));
    }
    return ST_OK;
}

static bool is_function(const Object *o, const Elf64_Sym *symbol) {
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
           symbol->st_shndx < o->n_sections && o->place[symbol->st_shndx] != NOWHERE &&
           (o->sections[symbol->st_shndx].sh_flags & SHF_EXECINSTR) &&
           symbol->st_value < o->sections[symbol->st_shndx].sh_size;
}

/* Of what a damaged object says, what is there. */
static size_t function_bytes(const Object *o, const Elf64_Sym *symbol) {
    const uint64_t most = o->sections[symbol->st_shndx].sh_size - symbol->st_value;
    return symbol->st_size < most ? symbol->st_size : most;
}

static Status keep_symbols(const Object *o) {
    LoadedCode *code = o->code;
    code->symbols = mem_zero(sizeof(Symbol) * (o->n_symbols + 1));
    if (!code->symbols) return ST_MEMORY;
    for (size_t i = 0; i < o->n_symbols; i++) {
        const Elf64_Sym symbol = symbol_at(o, i);
        const bool exported = ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL;
        if (!is_function(o, &symbol) || !(exported || jit_symbols_on())) continue;
        char *name = mem_strdup(symbol_name(o, &symbol));
        if (!name) return ST_MEMORY;
        uint8_t *at = code->base + o->place[symbol.st_shndx] + symbol.st_value;
        code->symbols[code->n_symbols++] = (Symbol){name, at, function_bytes(o, &symbol), exported};
    }
    return ST_OK;
}

static Status protect(Object *o) {
    const LoadedCode *const code = o->code;
    if (failpoint("exec_memory")) return refuse_memory(o, "failpoint exec_memory");
    const size_t rest = code->bytes - code->code_bytes;
    if (mprotect(code->base, code->code_bytes, PROT_READ | PROT_EXEC) ||
        (rest && mprotect(code->base + code->code_bytes, rest, PROT_READ)))
        return refuse_memory(o, "executable memory was refused");
    return ST_OK;
}

static Status load_object(Object *o) {
    if (failpoint("load")) return refuse_object("failpoint load");
    TRY(read_sections(o));
    TRY(read_symbols(o));
    TRY(map_sections(o));
    write_slots(o);
    TRY(relocate_all(o));
    TRY(keep_symbols(o));
    return protect(o);
}

Status loader_load(const void *object, size_t bytes, LoadedCode **out, BailCode *why) {
    Object o = {.at = object, .bytes = bytes, .code = mem_zero(sizeof(LoadedCode)), .why = BAIL_load};
    const Status status = o.code ? load_object(&o) : ST_MEMORY;
    if (why) *why = status == ST_OK ? BAIL_none : o.why;
    mem_free(o.sections);
    mem_free(o.place);
    if (status == ST_OK)
        *out = o.code;
    else
        loader_free(o.code);
    return status;
}

void *loader_symbol(const LoadedCode *code, const char *name) {
    for (int i = 0; i < code->n_symbols; i++)
        if (code->symbols[i].exported && !strcmp(code->symbols[i].name, name)) return code->symbols[i].address;
    return NULL;
}

static void shown_name(Text *text, const char *name, const LoaderNames *names) {
    for (int i = 0; i < names->n; i++) {
        if (strcmp(names->names[i], name)) continue;
        text_puts(text, names->shown[i]);
        return;
    }
    text_printf(text, "%s%s", name, names->behind);
}

void loader_register(LoadedCode *code, const LoaderNames *names) {
    if (!jit_symbols_on() || code->told) return;
    const size_t n = (size_t)code->n_symbols;
    JitSymbol *const symbols = mem_alloc(n * sizeof *symbols);
    Text *const shown = mem_zero(n * sizeof *shown);
    for (size_t i = 0; symbols && shown && i < n; i++) {
        shown_name(&shown[i], code->symbols[i].name, names);
        symbols[i] = (JitSymbol){text_str(&shown[i]), code->symbols[i].address, code->symbols[i].bytes};
    }
    if (symbols && shown) code->told = jit_code_register(symbols, code->n_symbols);
    for (size_t i = 0; shown && i < n; i++) text_free(&shown[i]);
    mem_free(shown);
    mem_free(symbols);
    error_clear(); /* names are not worth an error */
}

size_t loader_bytes(const LoadedCode *code) { return code->bytes; }

void loader_free(LoadedCode *code) {
    if (!code) return;
    jit_code_forget(code->told);
    if (code->base) munmap(code->base, code->bytes);
    for (int i = 0; i < code->n_symbols; i++) mem_free(code->symbols[i].name);
    mem_free(code->symbols);
    mem_free(code);
}
