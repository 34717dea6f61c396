package podspec

import "strings"

// Expand replaces every $(NAME) in s that look knows. A reference it does not know
// stays as it is, $$ stands for a single $, so that $$(NAME) is the text $(NAME),
// and any other $ is itself
// (https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/).
func Expand(s string, look func(name string) (string, bool)) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		s = reference(&b, after, look)
	}
}

// reference writes what the text after a $ stands for and returns the rest.
func reference(b *strings.Builder, s string, look func(string) (string, bool)) string {
	if strings.HasPrefix(s, "$") {
		b.WriteByte('$')
		return s[1:]
	}
	if !strings.HasPrefix(s, "(") {
		b.WriteByte('$')
		return s
	}
	name, rest, closed := strings.Cut(s[1:], ")")
	if !closed {
		b.WriteString("$(")
		return s[1:]
	}
	if value, ok := look(name); ok {
		b.WriteString(value)
	} else {
		b.WriteString("$(" + name + ")")
	}
	return rest
}

func expandAll(list []string, look func(string) (string, bool)) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = Expand(s, look)
	}
	return out
}
