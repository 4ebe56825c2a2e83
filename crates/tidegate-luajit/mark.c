/*
 * What the scheduler notes about a coroutine, in the coroutine itself. A table of coroutines would cost more than they do:
 * each new one makes it grow, and the collector looks through all of it.
 *
 * With 64-bit references a lua_State has four bytes between its status and the link to its global state that LuaJIT uses for
 * nothing: there the note stands. A bit of `marked` says that there is one. LuaJIT has a use for that bit in cdata
 * objects only, and its collector changes none but those of its colours.
 */
#define LUA_CORE

#include <stddef.h>
#include <string.h>

#include "lauxlib.h"
#include "lj_obj.h"
#include "lj_gc.h"

#if !LJ_GC64
#error "Tidegate wants LuaJIT with 64-bit references (GC64)"
#endif

#define HAS_NOTE 0x80
#define NOTE_AT (offsetof(lua_State, status) + sizeof(uint8_t))

LJ_STATIC_ASSERT(NOTE_AT % sizeof(uint32_t) == 0);
LJ_STATIC_ASSERT(NOTE_AT + sizeof(uint32_t) <= offsetof(lua_State, glref));
LJ_STATIC_ASSERT((HAS_NOTE & (LJ_GC_COLORS | LJ_GC_FIXED | LJ_GC_SFIXED)) == 0);

/* The bits of a note that say who may resume it. In Rust, where their meaning stands: src/mark.rs. */
#define KIND 3u

extern int tidegate_lua_has_room(void);

/* The note; 0 if there is none. */
uint32_t
tidegate_lua_note(lua_State *L)
{
    uint32_t note;

    if ((L->marked & HAS_NOTE) == 0) {
        return 0;
    }
    memcpy(&note, (char *)L + NOTE_AT, sizeof note);
    return note;
}

void
tidegate_lua_set_note(lua_State *L, uint32_t note)
{
    memcpy((char *)L + NOTE_AT, &note, sizeof note);
    if (note != 0) {
        L->marked |= HAS_NOTE;
    } else {
        L->marked &= (uint8_t)~HAS_NOTE;
    }
}

/*
 * may_resume(co): whether it is a coroutine that no note keeps a script from resuming, with room for it on the C stack. A
 * function for Lua.
 */
int
tidegate_lua_may_resume(lua_State *L)
{
    cTValue *co = L->base;

    lua_pushboolean(L, co < L->top && tvisthread(co) && (tidegate_lua_note(threadV(co)) & KIND) == 0
                           && tidegate_lua_has_room());
    return 1;
}

/* exchange(co, kind): puts another kind into its note, if one is given; gives what stood there. A function for Lua. */
int
tidegate_lua_exchange(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    uint32_t note;

    if (co == NULL) {
        return luaL_typerror(L, 1, "coroutine");
    }
    note = tidegate_lua_note(co);
    if (lua_gettop(L) > 1) {
        tidegate_lua_set_note(co, (note & ~KIND) | ((uint32_t)luaL_checkinteger(L, 2) & KIND));
    }
    lua_pushinteger(L, note & KIND);
    return 1;
}
