"""Lua in the gateway: lupa's LuaJIT, the `ngx` API in Lua over some Python callables, and the waiting between them.

`kernel.lua` enters, parks and resumes scripts; the other preludes are the `ngx` that scripts see. Python and Lua
exchange only bytes, numbers, booleans and nil. `runtime` makes a VM, `bridge` says which request it works for,
`schedule` turns what a script waits for into what the engine awaits, `hooks` are what the engine calls, `api` holds the
callables.
"""
