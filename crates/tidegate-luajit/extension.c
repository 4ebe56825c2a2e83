/*
 * What Tidegate needs of LuaJIT's inside and the public C API does not give.
 * Compiled against the headers of the very LuaJIT that build.rs builds.
 */
#define LUA_CORE

#include <stdio.h>

#include "lauxlib.h"
#include "lj_obj.h"
#include "lj_gc.h"
#include "lj_func.h"
#include "lj_frame.h"
#include "lj_state.h"
#include "lj_tab.h"
#include "lj_vmevent.h"

#if !LJ_GC64
#error "Tidegate wants LuaJIT with 64-bit references (GC64)"
#endif

/*
 * Makes a coroutine that ended, failed or waits fit for a new function: its stack is empty and its status LUA_OK.
 * Open upvalues are closed first, since closures that escaped may refer to its slots.
 *
 * Returns 0 and changes nothing when the coroutine runs at present.
 */
int
tidegate_lua_resetthread(lua_State *L)
{
    TValue *bottom = tvref(L->stack) + 1 + LJ_FR2;

    if (L->cframe != NULL) {
        return 0;
    }
    lj_func_closeuv(L, bottom);
    L->base = bottom;
    L->top = bottom;
    L->status = LUA_OK;
    /* A function may have changed it with setfenv(0, ...). Threads are never black: no barrier. */
    setgcrefr(L->env, mainthread(G(L))->env);
    return 1;
}

/* Bytes that the collector counts as allocated; lua_gc(LUA_GCCOUNT) rounds to KB and needs two calls. */
size_t
tidegate_lua_allocated(lua_State *L)
{
    return G(L)->gc.total;
}

/* Where the collector counts them. It stays there as long as the state lives. */
const size_t *
tidegate_lua_allocation_count(lua_State *L)
{
    return &G(L)->gc.total;
}

lua_State *
tidegate_lua_mainthread(lua_State *L)
{
    return mainthread(G(L));
}

static const char *
message_of(lua_State *L)
{
    const char *message = lua_tostring(L, -1);

    return message != NULL ? message : "?";
}

/* A finalizer failed: nobody else would hear of it. In Rust: src/error.rs. */
extern int tidegate_lua_finalizer_failed(lua_State *L);

/* An error outside of any protected call: the process ends. */
static int
panic(lua_State *L)
{
    fprintf(stderr, "PANIC: unprotected error in call to Lua API (%s)\n", message_of(L));
    return 0;
}

/* luaL_newstate with an allocator: lua_newstate alone says nothing of what goes wrong. */
lua_State *
tidegate_lua_newstate(lua_Alloc allocate, void *data)
{
    lua_State *L = lua_newstate(allocate, data);

    if (L == NULL) {
        return NULL;
    }
    lua_atpanic(L, panic);
#ifndef LUAJIT_DISABLE_VMEVENT
    luaL_findtable(L, LUA_REGISTRYINDEX, LJ_VMEVENTS_REGKEY, LJ_VMEVENTS_HSIZE);
    lua_pushcfunction(L, tidegate_lua_finalizer_failed);
    lua_rawseti(L, -2, VMEVENT_HASH(LJ_VMEVENT_ERRFIN));
    G(L)->vmevmask = VMEVENT_MASK(LJ_VMEVENT_ERRFIN);
    lua_pop(L, 1);
#endif
    return L;
}

/* The block of a userdata if it is a plain one of `size` bytes; otherwise NULL. */
static inline void *
block_of_size(cTValue *value, size_t size)
{
    GCudata *block;

    if (!tvisudata(value)) {
        return NULL;
    }
    block = udataV(value);
    return block->udtype == UDTYPE_USERDATA && block->len == size ? uddata(block) : NULL;
}

/*
 * The block of the userdata at `index` (no pseudo-index) if it is a plain one of `size` bytes; otherwise NULL. Its metatable
 * is not asked: scripts can change that.
 */
void *
tidegate_lua_userdata(lua_State *L, int index, size_t size)
{
    cTValue *value = index > 0 ? L->base + (index - 1) : L->top + index;

    return value >= L->base && value < L->top ? block_of_size(value, size) : NULL;
}

/* The same for upvalue `number` of the C function that runs, counted from 1. */
void *
tidegate_lua_userdata_upvalue(lua_State *L, int number, size_t size)
{
    GCfunc *function = curr_func(L);

    if (!iscfunc(function) || number < 1 || number > function->c.nupvalues) {
        return NULL;
    }
    return block_of_size(&function->c.upvalue[number - 1], size);
}

/*
 * Between two cycles of the collector: lets the heap grow by `room` bytes at least before the next one begins. Nothing
 * happens if a script has set the pause itself, or has stopped the collector.
 */
void
tidegate_lua_gc_room(lua_State *L, size_t room)
{
    GCState *gc = &G(L)->gc;

    if (gc->state == GCSpause && gc->pause == LUAI_GCPAUSE && gc->threshold < gc->estimate + room) {
        gc->threshold = gc->estimate + room;
    }
}
