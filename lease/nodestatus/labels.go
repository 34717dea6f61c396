package nodestatus

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// CheckLabels says which labels a kubelet must not give its node: malformed ones, and
// those of the domains kubernetes.io and k8s.io that the admission plugin
// NodeRestriction refuses.
func CheckLabels(labels map[string]string) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		err := errors.Join(checkKey(key), checkValue(labels[key]))
		if err == nil && !mayLabel(key) {
			err = errors.New("kubelets may not set it: of kubernetes.io and k8s.io only kubelet.kubernetes.io/, node.kubernetes.io/ and " +
				strings.Join(reconciled(), ", "))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("label %s=%s: %w", key, labels[key], err))
		}
	}
	return errors.Join(errs...)
}

// mayLabel reports whether NodeRestriction lets kubelets set a label.
func mayLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok || !within(domain, "kubernetes.io") && !within(domain, "k8s.io") {
		return true
	}
	return within(domain, "kubelet.kubernetes.io") || within(domain, "node.kubernetes.io") || slices.Contains(reconciled(), key)
}

// within reports whether a domain is another one or below it.
func within(domain, of string) bool {
	return domain == of || strings.HasSuffix(domain, "."+of)
}

func checkKey(key string) error {
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return fmt.Errorf("key %q: %s", key, strings.Join(problems, "; "))
	}
	return nil
}

func checkValue(value string) error {
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return fmt.Errorf("value %q: %s", value, strings.Join(problems, "; "))
	}
	return nil
}

// ParseLabels reads labels as the flag --node-labels has them: "a=b,c=". A key alone has
// the empty value, and the last value of a key counts, as for the kubelet. The error names
// each that is wrong.
func ParseLabels(s string) (map[string]string, error) {
	labels := map[string]string{}
	for part := range fields(s) {
		key, value, _ := strings.Cut(part, "=")
		labels[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	if err := CheckLabels(labels); err != nil {
		return nil, err
	}
	return labels, nil
}

// ParseTaints reads taints as the flag --register-with-taints has them:
// "key=value:NoSchedule,other:NoExecute". The error names each that is wrong.
func ParseTaints(s string) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	var errs []error
	for part := range fields(s) {
		rest, effect, ok := cutLast(part, ":")
		if !ok {
			errs = append(errs, fmt.Errorf("taint %q has no effect, want key=value:effect", part))
			continue
		}
		key, value, _ := strings.Cut(rest, "=")
		t := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
		if slices.ContainsFunc(taints, func(o corev1.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect }) {
			errs = append(errs, fmt.Errorf("taint %q is there twice: one key has one taint of an effect", part))
			continue
		}
		errs = append(errs, checkTaint(t))
		taints = append(taints, t)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return taints, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// fields yields the parts of a list with commas, without spaces around them and without
// empty ones.
func fields(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for part := range strings.SplitSeq(s, ",") {
			if part = strings.TrimSpace(part); part != "" && !yield(part) {
				return
			}
		}
	}
}
