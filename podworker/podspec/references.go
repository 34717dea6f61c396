package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// References are the things beyond the pod that its variables can refer to. The zero
// value has none: variables that need one make [Container] fail.
type References struct {
	// Objects has ConfigMaps and Secrets.
	Objects Objects
	// Services are those of the pod's namespace and the one named kubernetes of the
	// namespace default; others are passed over.
	Services []*corev1.Service
	// Files reads files that an init container left in a volume.
	Files Files
	// NotYet says why it is not known yet what there is, as before Services were read
	// for the first time; [Container] fails with it. nil: it is known.
	NotYet error
}

// Objects finds the objects a pod refers to, in the pod's namespace. An object that
// does not exist is an error for which IsNotFound of k8s.io/apimachinery's package
// api/errors is true; then an optional reference is passed over.
type Objects interface {
	ConfigMap(namespace, name string) (*corev1.ConfigMap, error)
	Secret(namespace, name string) (*corev1.Secret, error)
}

// Files reads files that containers wrote.
type Files interface {
	// ReadFile returns the content of a file below a directory. It follows no link
	// out of the directory, whoever made it.
	ReadFile(dir, name string) ([]byte, error)
}

// configMap returns a ConfigMap, nil if it does not exist and need not.
func (r *References) configMap(pod *corev1.Pod, name string, optional *bool) (*corev1.ConfigMap, error) {
	if r.Objects == nil {
		return nil, fmt.Errorf("couldn't get configMap %s/%s: there is no source of ConfigMaps", pod.Namespace, name)
	}
	object, err := r.Objects.ConfigMap(pod.Namespace, name)
	if err != nil {
		return nil, unlessOptional(err, optional, "configmap", name)
	}
	return object, nil
}

// secret returns a Secret, nil if it does not exist and need not.
func (r *References) secret(pod *corev1.Pod, name string, optional *bool) (*corev1.Secret, error) {
	if r.Objects == nil {
		return nil, fmt.Errorf("couldn't get secret %s/%s: there is no source of Secrets", pod.Namespace, name)
	}
	object, err := r.Objects.Secret(pod.Namespace, name)
	if err != nil {
		return nil, unlessOptional(err, optional, "secret", name)
	}
	return object, nil
}

func unlessOptional(err error, optional *bool, kind, name string) error {
	switch {
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("get %s %q: %w", kind, name, err)
	case isTrue(optional):
		return nil
	}
	return &missingError{text: fmt.Sprintf("%s %q not found", kind, name), err: err}
}

// missingError says in the kubelet's words that an object does not exist.
type missingError struct {
	text string
	err  error
}

func (e *missingError) Error() string { return e.text }
func (e *missingError) Unwrap() error { return e.err }
