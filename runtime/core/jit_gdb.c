/* jit_gdb.c: gdb's interface for code made at run time (its manual, "JIT Compilation Interface"): a list of ELF images
 * that a debugger reads in this process' memory whenever __jit_debug_register_code is called, where it has a
 * breakpoint, or when it attaches.
 *
 * LLVM defines the same two symbols. Each library has its own pair: debuggers read the descriptor beside the function
 * that they stopped at, in each object file [gdb 10 and later]. So neither leaves the shared library (else LLVM's code
 * would take this list for its own, without this lock), and both are weak, for a program that links both statically.
 * They are in the symbol table, which `strip` removes.
 *
 * An image has no code, only where it lies: section .text without content at the addresses of the mapping, symbols. */
#include <elf.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/core/jit_registered.h"

enum { JIT_VERSION = 1, JIT_NOTHING = 0, JIT_ADDED = 1, JIT_REMOVED = 2 };

typedef struct GdbDescriptor {
    uint32_t version, action;
    GdbEntry *relevant, *first;
} GdbDescriptor;

__attribute__((weak, used)) GdbDescriptor __jit_debug_descriptor = {.version = JIT_VERSION};

void __jit_debug_register_code(void);
__attribute__((weak, used, noinline)) void __jit_debug_register_code(void) { __asm__ volatile("" ::: "memory"); }

static void announce(GdbEntry *entry, uint32_t action) {
    __jit_debug_descriptor.relevant = entry;
    __jit_debug_descriptor.action = action;
    __jit_debug_register_code();
    __jit_debug_descriptor.action = JIT_NOTHING;
    __jit_debug_descriptor.relevant = NULL;
}

/* The image -------------------------------------------------------------------------------------- */

enum { SECTION_text = 1, SECTION_symtab, SECTION_strtab, SECTION_shstrtab, SECTIONS };
static const char section_names[] = "\0.text\0.symtab\0.strtab\0.shstrtab";
static const uint32_t section_name_at[SECTIONS] = {0, 1, 7, 15, 23};

typedef struct ElfHead {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    Elf64_Shdr sections[SECTIONS];
    char names[sizeof section_names];
    _Alignas(8) Elf64_Sym symbols[]; /* the first is empty; behind them their names */
} ElfHead;

typedef struct CodeRange {
    uintptr_t from, to;
} CodeRange;

static CodeRange range_of(const JitCode *code) {
    CodeRange range = {UINTPTR_MAX, 0};
    for (int i = 0; i < code->n; i++) {
        const uintptr_t at = (uintptr_t)code->symbols[i].at, end = at + code->symbols[i].bytes;
        if (at < range.from) range.from = at;
        if (end > range.to) range.to = end;
    }
    return range;
}

static void fill_header(ElfHead *elf) {
    memcpy(elf->header.e_ident, ELFMAG, SELFMAG);
    elf->header.e_ident[EI_CLASS] = ELFCLASS64;
    elf->header.e_ident[EI_DATA] = ELFDATA2LSB;
    elf->header.e_ident[EI_VERSION] = EV_CURRENT;
    elf->header.e_type = ET_EXEC; /* symbols have addresses */
    elf->header.e_machine = EM_X86_64;
    elf->header.e_version = EV_CURRENT;
    elf->header.e_phoff = offsetof(ElfHead, segment);
    elf->header.e_shoff = offsetof(ElfHead, sections);
    elf->header.e_ehsize = sizeof elf->header;
    elf->header.e_phentsize = sizeof elf->segment;
    elf->header.e_phnum = 1;
    elf->header.e_shentsize = sizeof *elf->sections;
    elf->header.e_shnum = SECTIONS;
    elf->header.e_shstrndx = SECTION_shstrtab;
}

static void fill_sections(ElfHead *elf, CodeRange range, size_t n_symbols, size_t letters) {
    const size_t symbols = offsetof(ElfHead, symbols), bytes = n_symbols * sizeof *elf->symbols;
    elf->segment = (Elf64_Phdr){.p_type = PT_LOAD,
                                .p_flags = PF_R | PF_X,
                                .p_vaddr = range.from,
                                .p_paddr = range.from,
                                .p_memsz = range.to - range.from,
                                .p_align = 1};
    elf->sections[SECTION_text] = (Elf64_Shdr){.sh_type = SHT_NOBITS,
                                               .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                               .sh_addr = range.from,
                                               .sh_size = range.to - range.from,
                                               .sh_addralign = 1};
    elf->sections[SECTION_symtab] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                                 .sh_offset = symbols,
                                                 .sh_size = bytes,
                                                 .sh_link = SECTION_strtab,
                                                 .sh_info = 1, /* the first that is global */
                                                 .sh_addralign = 8,
                                                 .sh_entsize = sizeof *elf->symbols};
    elf->sections[SECTION_strtab] =
        (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = symbols + bytes, .sh_size = letters, .sh_addralign = 1};
    elf->sections[SECTION_shstrtab] = (Elf64_Shdr){
        .sh_type = SHT_STRTAB, .sh_offset = offsetof(ElfHead, names), .sh_size = sizeof elf->names, .sh_addralign = 1};
    for (int i = 1; i < SECTIONS; i++) elf->sections[i].sh_name = section_name_at[i];
    memcpy(elf->names, section_names, sizeof section_names);
}

static void fill_symbols(ElfHead *elf, const JitCode *code) {
    char *const names = (char *)&elf->symbols[code->n + 1];
    size_t at = 1; /* behind the empty name */
    for (int i = 0; i < code->n; i++) {
        const JitSymbol *const symbol = &code->symbols[i];
        elf->symbols[i + 1] = (Elf64_Sym){.st_name = (uint32_t)at,
                                          .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                          .st_shndx = SECTION_text,
                                          .st_value = (uintptr_t)symbol->at,
                                          .st_size = symbol->bytes};
        const size_t length = strlen(symbol->name) + 1;
        memcpy(names + at, symbol->name, length);
        at += length;
    }
}

bool jit_gdb_add(JitCode *code) {
    const size_t n_symbols = (size_t)code->n + 1;
    size_t letters = 1;
    for (int i = 0; i < code->n; i++) letters += strlen(code->symbols[i].name) + 1;
    const size_t bytes = sizeof(ElfHead) + n_symbols * sizeof(Elf64_Sym) + letters;
    ElfHead *const elf = mem_zero(bytes);
    if (!elf) return false;
    fill_header(elf);
    fill_sections(elf, range_of(code), n_symbols, letters);
    fill_symbols(elf, code);
    GdbEntry *const first = __jit_debug_descriptor.first;
    code->gdb = (GdbEntry){.next = first, .image = (const char *)elf, .bytes = bytes};
    if (first) first->previous = &code->gdb;
    __jit_debug_descriptor.first = &code->gdb;
    announce(&code->gdb, JIT_ADDED);
    return true;
}

void jit_gdb_remove(JitCode *code) {
    GdbEntry *const entry = &code->gdb;
    if (!entry->image) return;
    *(entry->previous ? &entry->previous->next : &__jit_debug_descriptor.first) = entry->next;
    if (entry->next) entry->next->previous = entry->previous;
    announce(entry, JIT_REMOVED);
    mem_free((void *)(uintptr_t)entry->image);
    entry->image = NULL;
}
