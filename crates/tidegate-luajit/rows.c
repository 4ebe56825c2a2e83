/*
 * Rows of a result set: tables with the same keys again and again. The first row is built key by key; each other one
 * is a copy of a row before, in which values are written straight into their slots, without looking their keys up.
 *
 * Rows are built within `tidegate_lua_sheltered_call`. Between `tidegate_lua_row_copy` and the moment that the table goes somewhere else, nothing here runs a step of the
 * collector: the new table stays white, so that stores into it need no barrier.
 */
#define LUA_CORE

#include "lua.h"
#include "lj_obj.h"
#include "lj_gc.h"
#include "lj_str.h"
#include "lj_tab.h"
#include "lj_state.h"
#include "lj_ctype.h"
#include "lj_dispatch.h"
#include "lj_vm.h"
#include "lj_cdata.h"

/* The value at an index of the running function's stack, counted from 1; nil where there is none. */
static cTValue *
value_at(lua_State *L, int index)
{
    cTValue *value = L->base + (index - 1);

    return index >= 1 && value < L->top ? value : niltv(L);
}

/* Where the value of the string key at `key` stands in the row at `row`, as an offset into its slots; -1 for nowhere. */
ptrdiff_t
tidegate_lua_row_slot(lua_State *L, int row, int key)
{
    cTValue *at = value_at(L, row), *name = value_at(L, key), *value;
    GCtab *table;

    if (!tvistab(at) || !tvisstr(name)) {
        return -1;
    }
    table = tabV(at);
    value = lj_tab_getstr(table, strV(name));
    if (value == NULL || table->hmask == 0) {
        return -1;
    }
    return (char *)value - (char *)noderef(table->node);
}

/*
 * Pushes a copy of the row at `row`, a table with a hash part alone; gives the address of its slots, and their size in bytes.
 * May raise (memory). The keys are few and the values are about to be written, so that the slots are copied as a whole.
 * Where there is no such table, or one without slots, the copy is an empty table and the size 0.
 */
char *
tidegate_lua_row_copy(lua_State *L, int row, size_t *size)
{
    uint32_t i, hmask;
    GCtab *from, *table;
    Node *source, *node;
    ptrdiff_t distance;

    lj_gc_check(L);
    *size = 0;
    table = lj_tab_new(L, 0, 0);
    settabV(L, L->top, table);
    incr_top(L);
    if (!tvistab(value_at(L, row))) {
        return (char *)noderef(table->node);
    }
    from = tabV(value_at(L, row));
    source = noderef(from->node);
    hmask = from->hmask;
    if (hmask == 0) {
        return (char *)noderef(table->node);
    }
    node = lj_mem_newvec(L, hmask + 1, Node);
    memcpy(node, source, (hmask + 1) * sizeof(Node));
    distance = (char *)node - (char *)source;
    for (i = 0; i <= hmask; i++) {
        Node *next = nextnode(&node[i]);
        if (next != NULL) {
            setmref(node[i].next, (char *)next + distance);
        }
    }
    table->nomm = 0; /* A column may be called like a metamethod. */
    setfreetop(table, node, (Node *)((char *)getfreetop(from, source) + distance));
    setmref(table->node, node);
    table->hmask = hmask;
    *size = (hmask + 1) * sizeof(Node);
    return (char *)node;
}

struct sheltered {
    void (*body)(lua_State *L, void *data);
    void *data;
};

static TValue *
call_sheltered(lua_State *L, lua_CFunction unused, void *data)
{
    struct sheltered *call = data;

    (void)unused;
    call->body(L, call->data);
    return NULL;
}

/*
 * Calls body(L, data) and gives LuaJIT's status; an error's value is on top then. Unlike lua_cpcall this may be called on any C
 * stack, such as that of a statement of the embedded engine: the body runs in the frame of the caller, and the collector rests
 * meanwhile, so that no finalizer runs there, whose C functions want the thread's own stack (guard.c). The caller makes up for
 * that with tidegate_lua_collect.
 */
int
tidegate_lua_sheltered_call(lua_State *L, void (*body)(lua_State *L, void *data), void *data)
{
    global_State *g = G(L);
    GCSize threshold = g->gc.threshold;
    uint8_t hooks = hook_save(g);
    struct sheltered call = { body, data };
    int status;

    g->gc.threshold = LJ_MAX_MEM;
    status = lj_vm_cpcall(L, NULL, &call, call_sheltered);
    g->gc.threshold = threshold;
    if (status != LUA_OK) {
        hook_restore(g, hooks);
    }
    return status;
}

/* Whether the collector has work to do. */
int
tidegate_lua_collector_waits(lua_State *L)
{
    return G(L)->gc.total >= G(L)->gc.threshold;
}

/* Does the steps that the collector would have done while it rested. */
void
tidegate_lua_collect(lua_State *L)
{
    while (G(L)->gc.total >= G(L)->gc.threshold) {
        if (lj_gc_step(L) > 0) {
            break;
        }
    }
}

/* May raise (memory). */
void
tidegate_lua_slot_bytes(lua_State *L, char *slot, const char *bytes, size_t size)
{
    setstrV(L, (TValue *)slot, lj_str_new(L, bytes, size));
}

/* Copies the value at `index`. */
void
tidegate_lua_slot_value(lua_State *L, char *slot, int index)
{
    copyTV(L, (TValue *)slot, value_at(L, index));
}

/* Pushes an int64_t or uint64_t. Runs no step of the collector. May raise (memory). */
void
tidegate_lua_push_int64(lua_State *L, uint64_t bits, int is_unsigned)
{
    CTState *cts = ctype_cts(L);
    GCcdata *cdata;

    cts->L = L;
    cdata = lj_cdata_new(cts, is_unsigned ? CTID_UINT64 : CTID_INT64, 8);
    *(uint64_t *)cdataptr(cdata) = bits;
    setcdataV(L, L->top, cdata);
    incr_top(L);
}

/* The bits of the 64-bit integer at `index`: 1 for int64_t, 2 for uint64_t, 0 for anything else. */
int
tidegate_lua_to_int64(lua_State *L, int index, uint64_t *bits)
{
    cTValue *value = value_at(L, index);
    CTypeID id;

    if (!tviscdata(value)) {
        return 0;
    }
    id = cdataV(value)->ctypeid;
    if (id != CTID_INT64 && id != CTID_UINT64) {
        return 0;
    }
    *bits = *(uint64_t *)cdataptr(cdataV(value));
    return id == CTID_INT64 ? 1 : 2;
}
