package podspec

import (
	"maps"
	"slices"
)

// Support says what becomes of a field of a pod.
type Support uint8

// The classes of fields.
const (
	// Refused fields reject the pod that sets them.
	Refused Support = iota
	// Honoured fields do what the API says.
	Honoured
	// Warned fields are cosmetic: the pod runs, and the user is told.
	Warned
	// Elsewhere fields belong to another component, such as the scheduler, and need
	// nothing from a node.
	Elsewhere
)

// String returns the class in lower case.
func (s Support) String() string {
	switch s {
	case Refused:
		return "refused"
	case Honoured:
		return "honoured"
	case Warned:
		return "warned"
	case Elsewhere:
		return "elsewhere"
	}
	return "invalid"
}

// rule is the class of one field, and why a field is not simply honoured, or whose it is. A field
// that needs abilities is honoured with all of them; without it is as support says.
type rule struct {
	support Support
	why     string
	needs   Ability
}

// with returns the class of a field for an agent with these abilities.
func (r rule) with(can Ability) Support {
	if r.needs != 0 && can.Has(r.needs) {
		return Honoured
	}
	return r.support
}

// Field is what becomes of one field of the types a pod is made of.
type Field struct {
	// Name is "Type.Field" in Go spelling, as in "PodSpec.HostUsers".
	Name string
	// Support is its class without any ability. A Refused field refuses the pod only
	// if it is set.
	Support Support
	// Needs are the abilities with all of which the field is honoured, 0 if none
	// changes its class.
	Needs Ability
	// Why says what is missing, or whose the field is; empty for an Honoured one.
	Why string
}

// Fields returns every field that a pod can set, in alphabetical order. Those below
// a refused field, or one that belongs elsewhere, are not listed. [Check] looks closer at a few honoured fields of
// which only some values are honoured.
func Fields() []Field {
	out := make([]Field, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		out = append(out, Field{Name: name, Support: fields[name].support, Needs: fields[name].needs, Why: fields[name].why})
	}
	return out
}

// fields has a rule for every field of the types a PodSpec is made of, down to
// the ones that are refused as a whole. The key is "Type.Field" in Go spelling.
//
//nolint:gochecknoglobals // a constant table
var fields = merge(podFields, schedulingFields, containerFields, ephemeralFields(), handlerFields, securityFields, volumeFields, projectionFields)

func merge(tables ...map[string]rule) map[string]rule {
	out := map[string]rule{}
	for _, t := range tables {
		maps.Copy(out, t)
	}
	return out
}

var yes = rule{support: Honoured} //nolint:gochecknoglobals // a constant

func no(why string) rule   { return rule{support: Refused, why: why} }
func warn(why string) rule { return rule{support: Warned, why: why} }

// of is the rule of a field that belongs to somebody else.
func of(whom string) rule { return rule{support: Elsewhere, why: whom} }

// needs is the rule of a field that is refused without an ability.
func needs(a Ability, why string) rule { return rule{support: Refused, why: why, needs: a} }
