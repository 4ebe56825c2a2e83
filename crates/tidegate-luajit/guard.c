/*
 * What keeps one script from taking the whole process or a worker's time: a bound on the C stack, and a way to stop what runs.
 *
 * The C stack is measured before each C function that Lua calls.
 * LuaJIT bounds the stacks of its coroutines, not the C stack below: a function that string.gsub calls and that calls
 * string.gsub again would go on until the process dies of it. Each way from Lua to C leads through the wrapper below, so
 * that such a script gets an error long before. The one exception is LuaJIT's own coroutine.resume: our Lua half asks
 * tidegate_lua_has_room first. The guard page at the stack's end stays the last line: an error cannot be raised from there, since
 * the system's functions may be interrupted anywhere.
 */
#define _GNU_SOURCE
#define LUA_CORE

#include <pthread.h>
#include <time.h>

#include "lauxlib.h"
#include "lj_obj.h"
#include "lj_bc.h"
#include "lj_err.h"
#include "lj_dispatch.h"
#include "lj_ff.h"
#include "lj_jit.h"
#include "lj_trace.h"
#include "levels.h"

/*
 * Bytes that stay free below the deepest C function that Lua calls: for that function itself. The deepest ones send a
 * response through filters and TLS; a build without optimisation takes some 100 KB for it.
 */
#define RESERVE (512 << 10)
/* The part of it that a message handler may use (debug.traceback is one) after the error. */
#define RESERVE_OF_HANDLER (64 << 10)
/* What must be free beyond the reserve before a coroutine is resumed: its own first calls. */
#define ROOM_FOR_COROUTINE (64 << 10)
/* What functions of our own that call themselves leave free: they call nothing large at their deepest. */
#define RESERVE_OF_NESTING (64 << 10)
/* Where the system does not tell the end of the stack. */
#define ASSUMED_STACK (1 << 20)

/* Frames of C functions that Lua calls on this thread lie above it. NULL until it is known. */
static _Thread_local char *floor_of_stack;

static char *
find_floor(char *frame)
{
    char *low = frame - ASSUMED_STACK;
#if defined(__linux__)
    pthread_attr_t attributes;
    void *address;
    size_t size;

    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &address, &size) == 0) {
            low = address;
        }
        pthread_attr_destroy(&attributes);
    }
#elif defined(__APPLE__)
    low = (char *)pthread_get_stackaddr_np(pthread_self()) - pthread_get_stacksize_np(pthread_self());
#endif
    floor_of_stack = low + RESERVE;
    return floor_of_stack;
}

static inline char *
floor_at(char *frame)
{
    char *low = floor_of_stack;

    return LJ_LIKELY(low != NULL) ? low : find_floor(frame);
}

/*
 * The functions of Lua's io and os libraries that wait for the system. LuaJIT numbers the functions of its library in their
 * order; those of these two follow one another.
 */
#define IS_BLOCKING(number) ((unsigned)(number) - FF_io_method_close <= FF_os_tmpname - FF_io_method_close)
/* What takes less is not even told. */
#define BLOCKED_NS_MIN 1000000

/* A function has kept the worker waiting. In Rust: src/api/stdlib.rs. */
extern void tidegate_lua_blocked(lua_State *L, const char *name, uint64_t ns);

static const char *const function_names[] = {
    "Lua", "C",
#define FFDEF(name) #name,
#include "lj_ffdef.h"
};

static uint64_t
now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static LJ_NOINLINE int
call_and_time(lua_State *L, lua_CFunction function, unsigned number)
{
    uint64_t began = now_ns(), took;
    int results = function(L);

    took = now_ns() - began;
    if (took >= BLOCKED_NS_MIN) {
        tidegate_lua_blocked(L, function_names[number], took);
    }
    return results;
}

/*
 * table.insert moves what stands between a position and the table's end, however far below 1 the position is, and takes
 * numbers that are no 32-bit integers for the lowest one: minutes in one call. A script that takes the position from a client
 * would stop its worker. Positions from which a call takes no longer than an instant are left as LuaJIT has them.
 */
#define POSITION_MIN (-(1 << 20))

static LJ_NOINLINE void
check_position(lua_State *L)
{
    if (lua_gettop(L) == 3 && lua_isnumber(L, 2)) {
        lua_Number position = lua_tonumber(L, 2);

        if (!(position >= POSITION_MIN && position <= INT32_MAX)) {
            luaL_argerror(L, 2, "position out of bounds");
        }
    }
}

/* Calls every C function that Lua calls. */
static int
call_c_function(lua_State *L, lua_CFunction function)
{
    char *frame = __builtin_frame_address(0);
    char *low = floor_at(frame);
    unsigned number = curr_func(L)->c.ffid;

    if (LJ_UNLIKELY(frame < low)) {
        /* While a message handler runs, LuaJIT's status is that of an error in error handling. */
        if (L->status != LUA_ERRERR || frame < low - RESERVE_OF_HANDLER) {
            return luaL_error(L, "C stack overflow");
        }
    }
    if (LJ_UNLIKELY(number == FF_table_insert)) {
        check_position(L);
    }
    return LJ_UNLIKELY(IS_BLOCKING(number)) ? call_and_time(L, function, number) : function(L);
}

/* Leads all C functions of a virtual machine, those of Lua's own library too, through the wrapper above. */
void
tidegate_lua_guard_stack(lua_State *L)
{
    global_State *g = G(L);

    g->wrapf = (lua_CFunction)call_c_function;
    setbc_op(&g->bc_cfunc_int, BC_FUNCCW);
    setbc_op(&g->bc_cfunc_ext, BC_FUNCCW);
}

/* Whether the C stack has room for another coroutine on top. */
int
tidegate_lua_has_room(void)
{
    char *frame = __builtin_frame_address(0);

    return frame > floor_at(frame) + ROOM_FOR_COROUTINE;
}

/* Whether the functions of our own that call themselves may do so once more: they are what the reserve is for. */
int
tidegate_lua_may_nest(void)
{
    char *frame = __builtin_frame_address(0);

    return frame > floor_at(frame) - (RESERVE - RESERVE_OF_NESTING);
}

/*
 * Stopping a script (lua_cpu_budget). The watchdog's signal calls tidegate_lua_stop on the thread that runs the script.
 * From then on each instruction raises an error, and so does each step of the pattern matcher and the parser, which run for
 * long without an instruction.
 *
 * The error calls no message handler, since that could loop as well, and leaves LuaJIT's hook mode first: finalizers and
 * hooks of scripts run in that mode, where no hook is called.
 */

/* Pushes the error's message, with the place of the script at a level of the stack. In Rust: src/budget.rs. */
extern void tidegate_lua_push_stop_message(lua_State *L, int level);

/* A state of the machine whose script is to stop. */
static _Thread_local lua_State *volatile stopped;

/*
 * Ends the recording of a trace. LuaJIT only marks it as aborted when an error is raised, and cleans up at the next
 * instruction; but what runs next may be a compiled trace of another coroutine.
 */
static void
end_recording(lua_State *L)
{
    jit_State *J = L2J(L);

    if (J->state != LJ_TRACE_IDLE) {
        lj_trace_abort(G(L));
        J->L = L;
        lj_trace_ins(J, J->pc);
    }
}

static void
raise_stop(lua_State *L, int level)
{
    end_recording(L);
    tidegate_lua_push_stop_message(L, level);
    hook_leave(G(L));
    lj_err_throw(L, LUA_ERRRUN);
}

static void
on_hook(lua_State *L, lua_Debug *at)
{
    (void)at;
    raise_stop(L, 0);
}

/* May be called in a signal handler on the thread of the machine. */
void
tidegate_lua_stop(lua_State *L)
{
    stopped = L;
    hook_leave(G(L));
    lua_sethook(L, on_hook, LUA_MASKCOUNT, 1);
}

/* Ends what tidegate_lua_stop began, and any hook that a script has set in the machine. */
void
tidegate_lua_unstop(lua_State *L)
{
    stopped = NULL;
    lua_sethook(L, NULL, 0, 0);
}

/* Whether a hook is set that is not there to stop a script. */
int
tidegate_lua_has_hook(lua_State *L)
{
    return (G(L)->hookmask & HOOK_EVENTMASK) != 0 && stopped == NULL;
}

/* LuaJIT's bound on nesting in patterns and in source text: levels.h puts this function in its place. */
int
tidegate_lua_levels_max(void)
{
    lua_State *L = stopped;

    if (LJ_UNLIKELY(L != NULL)) {
        /* Level 0 is the function of Lua's library. */
        raise_stop(gco2th(gcref(G(L)->cur_L)), 1);
    }
    return TIDEGATE_LUA_LEVELS_MAX;
}
