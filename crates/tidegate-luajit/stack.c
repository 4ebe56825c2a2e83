/*
 * Operations on a function's stack that look first whether what they work on is there. The public C API trusts its callers;
 * asking it before each call (lua_gettop, lua_type) would cost more than the operation. In Rust: src/stack.rs.
 */
#define LUA_CORE

#include "lauxlib.h"
#include "lj_obj.h"
#include "lj_gc.h"
#include "lj_tab.h"

/* How many values the running function has on its stack. */
static inline ptrdiff_t
count(lua_State *L)
{
    return L->top - L->base;
}

/* The slot at `index`, counted from the bottom (1, 2, ...) or the top (-1, -2, ...); NULL where there is none. */
static inline TValue *
slot(lua_State *L, int index)
{
    if (index > 0) {
        return index <= count(L) ? L->base + (index - 1) : NULL;
    }
    return index < 0 && -(ptrdiff_t)index <= count(L) ? L->top + index : NULL;
}

/* The table in the slot at `index`; NULL where there is none. */
static inline GCtab *
table_in_slot(lua_State *L, int index)
{
    TValue *value = slot(L, index);

    return LJ_LIKELY(value != NULL && tvistab(value)) ? tabV(value) : NULL;
}

/* The same for the registry and its like, which are rarely asked for. */
static LJ_NOINLINE int
is_special_table(lua_State *L, int index)
{
    return index <= LUA_REGISTRYINDEX && lua_type(L, index) == LUA_TTABLE;
}

/* Where no stack has a value. */
#define NOWHERE (1 << 24)

/* `index` if the public API may be asked about it: LuaJIT itself looks only whether there is a value above the top. */
static inline int
known(lua_State *L, int index)
{
    if (index > 0) {
        return index < NOWHERE ? index : NOWHERE;
    }
    if (index < 0 && -(ptrdiff_t)index <= count(L)) {
        return index;
    }
    return index == LUA_REGISTRYINDEX || index == LUA_GLOBALSINDEX ? index : NOWHERE;
}

int
tidegate_lua_type(lua_State *L, int index)
{
    return lua_type(L, known(L, index));
}

int
tidegate_lua_is_c_function(lua_State *L, int index)
{
    return lua_iscfunction(L, known(L, index));
}

/* A string's bytes; a number becomes one, in its slot. NULL for other values. May raise. */
const char *
tidegate_lua_to_bytes(lua_State *L, int index, size_t *len)
{
    TValue *value = slot(L, index);

    if (LJ_LIKELY(value != NULL && tvisstr(value))) {
        *len = strV(value)->len;
        return strVdata(value);
    }
    return value != NULL ? lua_tolstring(L, index, len) : NULL;
}

int
tidegate_lua_to_bool(lua_State *L, int index)
{
    return lua_toboolean(L, known(L, index));
}

/* Whether there is a number, or a string that looks like one. */
int
tidegate_lua_to_number(lua_State *L, int index, lua_Number *number)
{
    TValue *value = slot(L, index);

    if (LJ_LIKELY(value != NULL && tvisnum(value))) {
        *number = numV(value);
        return 1;
    }
    if (value == NULL || !lua_isnumber(L, index)) {
        return 0;
    }
    *number = lua_tonumber(L, index);
    return 1;
}

lua_State *
tidegate_lua_to_thread(lua_State *L, int index)
{
    return lua_tothread(L, known(L, index));
}

void *
tidegate_lua_to_userdata(lua_State *L, int index)
{
    return lua_touserdata(L, known(L, index));
}

size_t
tidegate_lua_raw_len(lua_State *L, int index)
{
    return lua_objlen(L, known(L, index));
}

/* Pushes a copy of a value, or nil. May raise (the stack grows). */
void
tidegate_lua_push_value(lua_State *L, int index)
{
    index = known(L, index);
    if (index > 0 && index > count(L)) {
        lua_pushnil(L);
    } else {
        lua_pushvalue(L, index);
    }
}

/* Pushes a coroutine of the same machine; nil for one of another. May raise (the stack grows). */
void
tidegate_lua_push_coroutine(lua_State *L, lua_State *coroutine)
{
    lua_pushnil(L);
    if (G(L) == G(coroutine)) {
        setthreadV(L, L->top - 1, coroutine);
    }
}

/* Moves values from the top, or all that there are, to another coroutine; pops them if that is another machine's. May raise. */
void
tidegate_lua_move(lua_State *from, lua_State *to, int values)
{
    if (values > count(from)) {
        values = (int)count(from);
    }
    if (values <= 0) {
        return;
    }
    if (G(from) == G(to)) {
        lua_xmove(from, to, values);
    } else {
        from->top -= values;
    }
}

/* Moves all values of a coroutine that does not run; gives their count. May raise. */
int
tidegate_lua_take(lua_State *to, lua_State *from)
{
    int values = (int)count(from);

    if (from == to || from->cframe != NULL || G(from) != G(to)) {
        return 0;
    }
    lua_xmove(from, to, values);
    return values;
}

/* Removes values from the top, or all that there are. */
void
tidegate_lua_pop(lua_State *L, int values)
{
    if (values > 0) {
        L->top -= values < count(L) ? values : count(L);
    }
}

/* Replaces the key on top by its value in a table, or by nil. */
void
tidegate_lua_raw_get(lua_State *L, int index)
{
    GCtab *table = table_in_slot(L, index);

    if (LJ_LIKELY(table != NULL && count(L) >= 1)) {
        copyTV(L, L->top - 1, lj_tab_get(L, table, L->top - 1));
    } else if (count(L) >= 1 && is_special_table(L, index)) {
        lua_rawget(L, index);
    } else {
        tidegate_lua_pop(L, 1);
        lua_pushnil(L);
    }
}

/* Pops a value and the key below it, and puts them into a table if there is one. May raise. */
void
tidegate_lua_raw_set(lua_State *L, int index)
{
    GCtab *table = table_in_slot(L, index);

    if (LJ_LIKELY(table != NULL && count(L) >= 2)) {
        TValue *value = lj_tab_set(L, table, L->top - 2);

        copyTV(L, value, L->top - 1);
        lj_gc_anybarriert(L, table);
        L->top -= 2;
    } else if (count(L) >= 2 && is_special_table(L, index)) {
        lua_rawset(L, index);
    } else {
        tidegate_lua_pop(L, 2);
    }
}

/* Pushes the value with number `key` in a table, or nil. May raise (the stack grows). */
void
tidegate_lua_raw_get_index(lua_State *L, int index, int key)
{
    if (table_in_slot(L, index) != NULL || is_special_table(L, index)) {
        lua_rawgeti(L, index, key);
    } else {
        lua_pushnil(L);
    }
}

/* Pops a value, and puts it under number `key` into a table if there is one. May raise. */
void
tidegate_lua_raw_set_index(lua_State *L, int index, int key)
{
    GCtab *table = table_in_slot(L, index);

    if (LJ_LIKELY(table != NULL && count(L) >= 1)) {
        TValue *value = lj_tab_setint(L, table, key);

        copyTV(L, value, L->top - 1);
        lj_gc_barriert(L, table, value);
        L->top--;
    } else if (count(L) >= 1 && is_special_table(L, index)) {
        lua_rawseti(L, index, key);
    } else {
        tidegate_lua_pop(L, 1);
    }
}

/* Replaces the key on top by the next key and value of a table. Pops it and returns 0 at the end, or without a table. May raise. */
int
tidegate_lua_raw_next(lua_State *L, int index)
{
    if (count(L) >= 1 && (table_in_slot(L, index) != NULL || is_special_table(L, index))) {
        return lua_next(L, index);
    }
    tidegate_lua_pop(L, 1);
    return 0;
}
