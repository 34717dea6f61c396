package podspec_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

func TestContainerHashIsTheKubelets(t *testing.T) {
	if got, want := podspec.ContainerHash(&corev1.Container{Name: "c", Image: "i", Command: []string{"x"}}), "f434d456"; got != want {
		t.Errorf("ContainerHash = %s, want %s", got, want)
	}
}
