// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"fmt"

	"k8s.io/gengo/v2/types"
)

// A body is written for the served type and for the hub's, whose Go names are the same and whose types may differ. Where it finds the
// field it returns true, or removes the field and goes on.

// place is an expression for a struct, or for a pointer to one.
type place struct {
	expr    string
	pointer bool
	typ     *types.Type
}

// address returns an expression for a pointer to the struct.
func (p place) address() string {
	if p.pointer {
		return p.expr
	}
	return "&" + p.expr
}

// accessor writes a function that follows a route in objects of one type.
func (w *writer) accessor(name string, kind *types.Type, r route) {
	w.line("\nfunc %s(obj *%s, remove bool) bool {", name, w.names.Name(kind))
	b := &body{writer: w, variables: map[string]int{}}
	b.follow(place{expr: "obj", pointer: true, typ: kind}, r)
	w.line("return false\n}")
}

// body writes what is in a function.
type body struct {
	*writer
	variables map[string]int
}

// variable returns a new variable's name.
func (b *body) variable(name string) string {
	b.variables[name]++
	if n := b.variables[name]; n > 1 {
		return fmt.Sprintf("%s%d", name, n)
	}
	return name
}

// follow writes the way from a struct to the field at the end of the route.
func (b *body) follow(at place, r route) {
	step := r[0]
	if len(step.loops) == 0 {
		b.through(at, r)
		return
	}
	function := b.loop(at.typ, step.loops, func(inner place) { b.through(inner, r) })
	b.line("if %s(%s) {\nreturn true\n}", function, at.address())
}

// loop writes a function that goes on from a struct, and from all the structs of its type that the loops lead to.
func (b *body) loop(typ *types.Type, loops []route, goOn func(at place)) string {
	function, in := b.variable("visit"), b.variable("in")
	b.line("var %s func(%s *%s) bool", function, in, b.names.Name(typ))
	b.line("%s = func(%s *%s) bool {", function, in, b.names.Name(typ))
	inner := place{expr: in, pointer: true, typ: typ}
	goOn(inner)
	for _, loop := range loops {
		b.around(inner, loop, function)
	}
	b.line("return false\n}")
	return function
}

// around writes the way of a loop, at whose end the function is called again.
func (b *body) around(at place, loop route, function string) {
	step := loop[0]
	goOn := func(at place) {
		b.into(at, step.member.Name, func(next place) {
			if len(loop) == 1 {
				b.line("if %s(%s) {\nreturn true\n}", function, next.address())
				return
			}
			b.around(next, loop[1:], function)
		})
	}
	if len(step.loops) == 0 {
		goOn(at)
		return
	}
	own := b.loop(at.typ, step.loops, goOn)
	b.line("if %s(%s) {\nreturn true\n}", own, at.address())
}

// through writes the way through the first field of a route.
func (b *body) through(at place, r route) {
	name := r[0].member.Name
	if len(r) > 1 {
		b.into(at, name, func(next place) { b.follow(next, r[1:]) })
		return
	}
	field := at.expr + "." + name
	b.line("if %s != nil {", field)
	b.line("if !remove {\nreturn true\n}")
	b.line("%s = nil\n}", field)
}

// into writes the way from a struct to the struct or structs in one of its fields.
func (b *body) into(at place, goName string, goOn func(next place)) {
	// The routes have been checked against the types.
	if member, ok := memberOf(at.typ, goName); ok {
		b.value(at.expr+"."+goName, member.Type, goOn)
	}
}

// value writes the way from an expression to the structs in it.
func (b *body) value(expr string, t *types.Type, goOn func(next place)) {
	t = resolve(t)
	switch t.Kind {
	case types.Struct:
		goOn(place{expr: expr, typ: t})
	case types.Pointer:
		p := b.variable("p")
		b.line("if %s := %s; %s != nil {", p, expr, p)
		if elem := resolve(t.Elem); elem.Kind == types.Struct {
			goOn(place{expr: p, pointer: true, typ: elem})
		} else {
			b.value("(*"+p+")", elem, goOn)
		}
		b.line("}")
	case types.Slice, types.Array:
		i := b.variable("i")
		b.line("for %s := range %s {", i, expr)
		b.value(expr+"["+i+"]", t.Elem, goOn)
		b.line("}")
	case types.Map:
		v := b.variable("v")
		if resolve(t.Elem).Kind == types.Pointer {
			b.line("for _, %s := range %s {", v, expr)
			b.value(v, t.Elem, goOn)
			b.line("}")
			return
		}
		k := b.variable("k")
		b.line("for %s, %s := range %s {", k, v, expr)
		b.value(v, t.Elem, goOn)
		// What a map holds cannot be changed in place.
		b.line("if remove {\n%s[%s] = %s\n}\n}", expr, k, v)
	}
}
