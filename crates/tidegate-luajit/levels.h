/*
 * Read before each file of LuaJIT's. The pattern matcher and the parser compare their depth with a constant at every step;
 * here the constant becomes a function, which can stop them (guard.c).
 */
#ifndef __ASSEMBLER__
/* LuaJIT's own program wants more of the headers, if they are read first here. */
#define luajit_c
#include "lj_def.h"
#undef luajit_c

#define TIDEGATE_LUA_LEVELS_MAX 200

/* Weak: LuaJIT's own program, which is built along, has no such function. */
extern int tidegate_lua_levels_max(void) __attribute__((weak));

#undef LJ_MAX_XLEVEL
#define LJ_MAX_XLEVEL (tidegate_lua_levels_max ? tidegate_lua_levels_max() : TIDEGATE_LUA_LEVELS_MAX)
#endif
