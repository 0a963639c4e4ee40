/* function_tables.h: variables of runtime/ through which code calls functions that it does not name: a call that no
 * linker sees. Found in the text of the sources: what is declared outside of functions, is not const, and is a function
 * pointer, a struct that has some, or points at one of these. */
#ifndef SINTER_TESTS_FUNCTION_TABLES_H
#define SINTER_TESTS_FUNCTION_TABLES_H
#include <stdbool.h>

enum { TABLE_NAME = 64, TABLE_PATH = 160, MAX_TABLES = 128, MAX_TABLE_CALLS = 1024, MAX_CARRIERS = 256 };

typedef struct FunctionTable {
    char name[TABLE_NAME], path[TABLE_PATH];
    bool whole; /* a struct, whose rows are called as name.row(...) */
} FunctionTable;
typedef struct TableCall {
    char table[TABLE_NAME], row[TABLE_NAME], path[TABLE_PATH];
} TableCall;
typedef struct Carrier { /* a struct of runtime/ with functions: of an object */
    char name[TABLE_NAME];
    int n;
} Carrier;

extern FunctionTable function_tables[MAX_TABLES];
extern TableCall table_calls[MAX_TABLE_CALLS];
extern Carrier carriers[MAX_CARRIERS];
extern int n_function_tables, n_table_calls, n_carriers;

void function_tables_read(const char *root);

#endif
