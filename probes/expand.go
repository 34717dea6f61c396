package probes

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// expand replaces $(NAME) in s by the value of NAME. $$ stands for one $, and a
// reference to an unknown name stays as it is
// (https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/).
func expand(s string, vars map[string]string) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case '$':
			out.WriteByte('$')
		case '(':
			i += reference(&out, s[i+1:], vars)
		default:
			out.WriteByte('$')
			out.WriteByte(s[i])
		}
	}
	return out.String()
}

// reference writes the value of the reference whose text after "$(" is rest, and
// returns how many bytes of rest it took.
func reference(out *strings.Builder, rest string, vars map[string]string) int {
	name, _, closed := strings.Cut(rest, ")")
	if !closed {
		out.WriteString("$(")
		return 0
	}
	if value, known := vars[name]; known {
		out.WriteString(value)
	} else {
		out.WriteString("$(" + name + ")")
	}
	return len(name) + 1
}

// literals returns the variables of env whose value stands in the manifest.
// Values that come from elsewhere are not looked up for the sake of a probe.
func literals(env []corev1.EnvVar) map[string]string {
	vars := make(map[string]string, len(env))
	for _, v := range env {
		if v.ValueFrom == nil {
			vars[v.Name] = v.Value
		} else {
			delete(vars, v.Name)
		}
	}
	return vars
}
