/*
 * The entries of a table, several at a time, for those who read whole tables: without the stack, a function call for each
 * part of an entry, and the search for the key before that lua_next needs. The order is that of lua_next. The table must
 * not change meanwhile.
 */
#define LUA_CORE

#include "lj_obj.h"
#include "lj_state.h"
#include "lj_tab.h"

enum { PART_STRING, PART_NUMBER, PART_OTHER };

/* As in crates/tidegate-lua/src/entries.rs. Strings and slots are valid as long as the table holds them. */
struct tidegate_part {
    uint32_t kind;
    uint32_t size;
    union {
        const char *bytes;
        double number;
        cTValue *slot;
    } as;
};

struct tidegate_entry {
    struct tidegate_part key;
    struct tidegate_part value;
};

static inline void
put(struct tidegate_part *part, cTValue *value)
{
    if (tvisstr(value)) {
        part->kind = PART_STRING;
        part->size = strV(value)->len;
        part->as.bytes = strVdata(value);
    } else if (tvisint(value) || tvisnum(value)) {
        part->kind = PART_NUMBER;
        part->as.number = tvisint(value) ? (double)intV(value) : numV(value);
    } else {
        part->kind = PART_OTHER;
        part->as.slot = value;
    }
}

/* The table at an index of the running function's stack, counted from 1; NULL where there is none. */
static GCtab *
table_at(lua_State *L, int index)
{
    cTValue *value = L->base + (index - 1);

    return index >= 1 && value < L->top && tvistab(value) ? tabV(value) : NULL;
}

/*
 * Gives up to `max` entries of the table at stack index `index` (counted from 1), from `*cursor` on, and moves the cursor
 * past them. Returns their count: less than `max` at the end. Cursors begin at 0.
 */
uint32_t
tidegate_lua_entries(lua_State *L, int index, uint32_t *cursor, struct tidegate_entry *entries, uint32_t max)
{
    GCtab *table = table_at(L, index);
    uint32_t at = *cursor, asize, count = 0;
    Node *node, *end;

    if (table == NULL) {
        return 0;
    }
    asize = table->asize;
    for (; at < asize && count < max; at++) {
        TValue *value = arrayslot(table, at);
        if (!tvisnil(value)) {
            struct tidegate_entry *entry = &entries[count++];
            entry->key.kind = PART_NUMBER;
            entry->key.as.number = (double)at;
            put(&entry->value, value);
        }
    }
    if (count < max) {
        node = noderef(table->node) + (at - asize);
        end = noderef(table->node) + table->hmask + 1;
        for (; node < end && count < max; node++) {
            if (!tvisnil(&node->val)) {
                struct tidegate_entry *entry = &entries[count++];
                put(&entry->key, &node->key);
                put(&entry->value, &node->val);
            }
        }
        at = asize + (uint32_t)(node - noderef(table->node));
    }
    *cursor = at;
    return count;
}

/* Pushes a value that is neither a string nor a number. May raise (the stack grows). */
void
tidegate_lua_push_part(lua_State *L, cTValue *value)
{
    copyTV(L, L->top, value);
    incr_top(L);
}

/*
 * Whether the first entry of the table at `index` has a string for its key. `*meta` becomes the address of its metatable,
 * or NULL.
 */
int
tidegate_lua_is_keyed(lua_State *L, int index, const void **meta)
{
    GCtab *table = table_at(L, index);
    uint32_t at;

    if (table == NULL) {
        return 0;
    }
    *meta = tabref(table->metatable);
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
