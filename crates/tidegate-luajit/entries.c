/*
 * The entries of a table one by one, for those who read whole tables: without the stack, a function call for each part
 * of an entry, and the search for the key before that lua_next needs. The order is that of lua_next. The table must not
 * change between two calls.
 */
#define LUA_CORE

#include "lj_obj.h"
#include "lj_state.h"
#include "lj_tab.h"

enum { ENTRY_END, ENTRY_STRING, ENTRY_NUMBER, ENTRY_OTHER };

/* As in crates/tidegate-lua/src/entries.rs. Strings are valid as long as the table holds them. */
struct tidegate_entry {
    int key_kind;
    int value_kind;
    const char *key;
    size_t key_size;
    const char *value;
    size_t value_size;
    double key_number;
    double value_number;
};

static int
kind_of(cTValue *value, const char **bytes, size_t *size, double *number)
{
    if (tvisstr(value)) {
        *bytes = strVdata(value);
        *size = strV(value)->len;
        return ENTRY_STRING;
    }
    if (tvisint(value) || tvisnum(value)) {
        *number = tvisint(value) ? (double)intV(value) : numV(value);
        return ENTRY_NUMBER;
    }
    return ENTRY_OTHER;
}

/* A value that is neither a string nor a number is pushed: the caller reserved a slot. */
static void
give(lua_State *L, struct tidegate_entry *entry, cTValue *value)
{
    entry->value_kind = kind_of(value, &entry->value, &entry->value_size, &entry->value_number);
    if (entry->value_kind == ENTRY_OTHER) {
        copyTV(L, L->top, value);
        incr_top(L);
    }
}

/*
 * Gives the entry at `*cursor` or behind of the table at stack index `index` (counted from 1), and moves the cursor past
 * it. Returns 0 at the end. Cursors begin at 0.
 */
int
tidegate_lua_entry(lua_State *L, int index, uint32_t *cursor, struct tidegate_entry *entry)
{
    GCtab *table = tabV(L->base + (index - 1));
    uint32_t at = *cursor;

    for (; at < table->asize; at++) {
        TValue *value = arrayslot(table, at);
        if (!tvisnil(value)) {
            *cursor = at + 1;
            entry->key_kind = ENTRY_NUMBER;
            entry->key_number = (double)at;
            give(L, entry, value);
            return 1;
        }
    }
    for (at -= table->asize; at <= table->hmask; at++) {
        Node *node = &noderef(table->node)[at];
        if (!tvisnil(&node->val)) {
            *cursor = table->asize + at + 1;
            entry->key_kind = kind_of(&node->key, &entry->key, &entry->key_size, &entry->key_number);
            give(L, entry, &node->val);
            return 1;
        }
    }
    return 0;
}

/* Whether the first entry of the table at `index` has a string for its key. */
int
tidegate_lua_is_keyed(lua_State *L, int index)
{
    GCtab *table = tabV(L->base + (index - 1));
    uint32_t at;

    for (at = 0; at < table->asize; at++) {
        if (!tvisnil(arrayslot(table, at))) {
            return 0;
        }
    }
    for (at = 0; at <= table->hmask; at++) {
        Node *node = &noderef(table->node)[at];
        if (!tvisnil(&node->val)) {
            return tvisstr(&node->key);
        }
    }
    return 0;
}
