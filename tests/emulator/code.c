/* code.c: libraries of kernels: ELF objects for this machine, which libemulated_nvrtc gives out as a GPU's code. All
 * sections that take memory lie in one mapping, code first; a program is compiled for the large code model, so that all
 * of its references are whole addresses. Words it leaves undefined are those of access.c; a weak one is the launch's
 * own shared memory (words.h). */
#define _GNU_SOURCE
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/emulator/gpu.h"

#define SHARED_SECTION ".lbss.emulated_shared"
#define KERNEL_PREFIX  "emulated_kernel_"

enum { PAGE = 4096 };

typedef struct ObjectText {
    const char *at;
    const Elf64_Ehdr *header;
    const Elf64_Shdr *sections;
    const Elf64_Sym *symbols;
    const char *names;
    int n_symbols;
    size_t *places; /* of sections in the mapping */
} ObjectText;

static GpuLibrary *libraries;

static bool read_header(ObjectText *o, const void *object) {
    o->at = object;
    o->header = object;
    if (memcmp(o->header->e_ident, ELFMAG, SELFMAG) || o->header->e_machine != EM_X86_64) return false;
    o->sections = (const Elf64_Shdr *)(o->at + o->header->e_shoff);
    for (int i = 0; i < o->header->e_shnum; i++) {
        const Elf64_Shdr *const s = &o->sections[i];
        if (s->sh_type != SHT_SYMTAB) continue;
        o->symbols = (const Elf64_Sym *)(o->at + s->sh_offset);
        o->n_symbols = (int)(s->sh_size / sizeof *o->symbols);
        o->names = o->at + o->sections[s->sh_link].sh_offset;
    }
    return o->symbols != NULL;
}

static const char *section_name(const ObjectText *o, const Elf64_Shdr *section) {
    return o->at + o->sections[o->header->e_shstrndx].sh_offset + section->sh_name;
}

static bool takes_memory(const Elf64_Shdr *s) {
    return s->sh_flags & SHF_ALLOC && s->sh_size && s->sh_type != SHT_X86_64_UNWIND;
}

/* Code, then all else from a page of its own on. */
static void place_sections(ObjectText *o, GpuLibrary *library) {
    size_t at = 0;
    o->places = calloc(o->header->e_shnum, sizeof *o->places);
    for (int code = 1; code >= 0; code--) {
        for (int i = 0; i < o->header->e_shnum; i++) {
            const Elf64_Shdr *const s = &o->sections[i];
            const int is_code = s->sh_flags & SHF_EXECINSTR ? 1 : 0;
            if (!takes_memory(s) || is_code != code) continue;
            const size_t align = s->sh_addralign ? s->sh_addralign : 1;
            o->places[i] = at = (at + align - 1) / align * align;
            at += s->sh_size;
        }
        at = (at + PAGE - 1) / PAGE * PAGE;
        if (code) library->code_bytes = at;
    }
    library->bytes = at ? at : PAGE;
}

static void fill_sections(const ObjectText *o, GpuLibrary *library) {
    for (int i = 0; i < o->header->e_shnum; i++) {
        const Elf64_Shdr *const s = &o->sections[i];
        if (!takes_memory(s)) continue;
        char *const to = library->image + o->places[i];
        if (s->sh_type != SHT_NOBITS) memcpy(to, o->at + s->sh_offset, s->sh_size);
        if (!strcmp(section_name(o, s), SHARED_SECTION)) library->shared = to, library->shared_bytes = s->sh_size;
    }
}

static const char *symbol_address(const ObjectText *o, const GpuLibrary *library, const Elf64_Sym *symbol) {
    if (symbol->st_shndx != SHN_UNDEF) return library->image + o->places[symbol->st_shndx] + symbol->st_value;
    if (ELF64_ST_BIND(symbol->st_info) == STB_WEAK) return emulated_dynamic_shared;
    return access_import(o->names + symbol->st_name);
}

static bool relocate_one(const ObjectText *o, const GpuLibrary *library, char *at, const Elf64_Rela *r) {
    const Elf64_Sym *const symbol = &o->symbols[ELF64_R_SYM(r->r_info)];
    const char *const target = symbol_address(o, library, symbol);
    if (!target) {
        emulator_tell("a program asks for '%s', which there is none of", o->names + symbol->st_name);
        return false;
    }
    const uint64_t value = (uint64_t)(uintptr_t)target + (uint64_t)r->r_addend;
    const uint64_t relative = value - (uint64_t)(uintptr_t)at;
    const int64_t distance = (int64_t)relative;
    switch (ELF64_R_TYPE(r->r_info)) {
    case R_X86_64_64:
        memcpy(at, &value, 8);
        return true;
    case R_X86_64_PC64:
        memcpy(at, &relative, 8);
        return true;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
        memcpy(at, &relative, 4);
        return distance == (int32_t)distance;
    default:
        return false;
    }
}

static bool relocate(const ObjectText *o, const GpuLibrary *library) {
    for (int i = 0; i < o->header->e_shnum; i++) {
        const Elf64_Shdr *const s = &o->sections[i];
        if (s->sh_type != SHT_RELA || !takes_memory(&o->sections[s->sh_info])) continue;
        const Elf64_Rela *const rows = (const Elf64_Rela *)(o->at + s->sh_offset);
        for (size_t k = 0; k < s->sh_size / sizeof *rows; k++) {
            char *const at = library->image + o->places[s->sh_info] + rows[k].r_offset;
            if (!relocate_one(o, library, at, &rows[k])) return false;
        }
    }
    return true;
}

/* A kernel's own variables are named after it: _ZZ4scanE4tile is `tile` in `scan`. Those of a function that kernels
 * call count for all of them. */
static bool is_variable_of(const char *variable, const char *kernel, bool *known) {
    size_t n = 0;
    if (strncmp(variable, "_ZZ", 3)) return false;
    for (variable += 3; *variable >= '0' && *variable <= '9'; variable++) n = 10 * n + (size_t)(*variable - '0');
    *known = *known || n;
    return n == strlen(kernel) && !strncmp(variable, kernel, n);
}

static int fixed_shared(const ObjectText *o, const GpuLibrary *library, const char *kernel) {
    size_t bytes = 0;
    for (int i = 0; i < o->n_symbols; i++) {
        const Elf64_Sym *const s = &o->symbols[i];
        const bool is_object = ELF64_ST_TYPE(s->st_info) == STT_OBJECT && s->st_shndx < o->header->e_shnum;
        if (!is_object || library->image + o->places[s->st_shndx] != library->shared) continue;
        bool own = false, known = false;
        for (int k = 0; k < library->n_kernels && !own; k++) {
            const char *const name = library->kernels[k].entry->name;
            if (is_variable_of(o->names + s->st_name, name, &known)) own = true, known = !strcmp(name, kernel);
        }
        if (!own || known) bytes += s->st_size;
    }
    return (int)bytes;
}

static bool is_kernel(const ObjectText *o, const Elf64_Sym *symbol) {
    return symbol->st_shndx != SHN_UNDEF && !strncmp(o->names + symbol->st_name, KERNEL_PREFIX, strlen(KERNEL_PREFIX));
}

static void find_kernels(const ObjectText *o, GpuLibrary *library) {
    library->kernels = calloc((size_t)o->n_symbols + 1, sizeof *library->kernels);
    for (int i = 0; i < o->n_symbols; i++) {
        if (!is_kernel(o, &o->symbols[i])) continue;
        GpuKernel *const kernel = &library->kernels[library->n_kernels++];
        kernel->entry = (const GpuEntry *)symbol_address(o, library, &o->symbols[i]);
        kernel->library = library;
        while (kernel->entry->sizes[kernel->n_parameters]) kernel->n_parameters++;
    }
    for (int i = 0; i < library->n_kernels; i++) {
        GpuKernel *const kernel = &library->kernels[i];
        kernel->fixed_shared = fixed_shared(o, library, kernel->entry->name);
        kernel->most_dynamic = LAUNCH_SHARED - kernel->fixed_shared;
    }
}

static void free_library(GpuLibrary *library) {
    if (library->image) munmap(library->image, library->bytes);
    free(library->kernels);
    free(library);
}

static bool link_library(ObjectText *o, GpuLibrary *library) {
    place_sections(o, library);
    library->image = mmap(NULL, library->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (library->image == MAP_FAILED) return library->image = NULL, false;
    fill_sections(o, library);
    if (!relocate(o, library)) return false;
    find_kernels(o, library);
    if (library->code_bytes) mprotect(library->image, library->code_bytes, PROT_READ | PROT_EXEC);
    return true;
}

CuResult code_load(const void *object, GpuLibrary **out) {
    ObjectText o = {0};
    if (!read_header(&o, object)) return GPU_invalid_image;
    GpuLibrary *const library = calloc(1, sizeof *library);
    const bool linked = link_library(&o, library);
    free(o.places);
    if (!linked) {
        free_library(library);
        return GPU_invalid_image;
    }
    library->next = libraries;
    libraries = library;
    *out = library;
    return CU_success;
}

/* NVIDIA's waits for launches that are under way; a program that relies on that is told here. */
CuResult code_unload(GpuLibrary *library) {
    for (int i = 0; i < library->n_kernels; i++) {
        if (!library->kernels[i].queued) continue;
        emulator_tell("%s: its library is unloaded while a launch of it waits", library->kernels[i].entry->name);
        return CU_invalid_value;
    }
    GpuLibrary **at = &libraries;
    while (*at != library) at = &(*at)->next;
    *at = library->next;
    free_library(library);
    return CU_success;
}

GpuLibrary *code_library(CuLibrary handle) {
    GpuLibrary *library = libraries;
    while (library && (CuLibrary)library != handle) library = library->next;
    return library;
}

GpuKernel *code_kernel(const void *handle) {
    const GpuKernel *const kernel = handle;
    for (const GpuLibrary *library = libraries; library; library = library->next)
        if (kernel >= library->kernels && kernel < library->kernels + library->n_kernels)
            return &library->kernels[kernel - library->kernels];
    return NULL;
}

GpuKernel *code_find(GpuLibrary *library, const char *name) {
    for (int i = 0; i < library->n_kernels; i++)
        if (!strcmp(library->kernels[i].entry->name, name)) return &library->kernels[i];
    return NULL;
}
