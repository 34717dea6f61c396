package podspec_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

func Example() {
	deadline := int64(60)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec: corev1.PodSpec{
			ActiveDeadlineSeconds: &deadline,
			Containers: []corev1.Container{{
				Name: "app", Image: "img.example/web:1",
				Env:  []corev1.EnvVar{{Name: "PORT", Value: "8080"}},
				Args: []string{"--listen=:$(PORT)"},
			}},
		},
	}
	fmt.Println(podspec.Refusal(podspec.Check(pod, podspec.Options{})))

	pod.Spec.ActiveDeadlineSeconds = nil
	node := &podspec.Node{Name: "node-a", Instance: "agent-1"}
	sandbox, err := podspec.Sandbox(pod, node, podspec.SandboxRun{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sandbox.Config.GetLogDirectory())
	container, err := podspec.Container(pod, &pod.Spec.Containers[0], node, podspec.Run{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(container.Config.GetArgs(), container.Config.GetLogPath())
	for _, p := range container.Paths {
		fmt.Println(p.Kind, p.Path)
	}
	// Output:
	// pod is not supported: spec.activeDeadlineSeconds: the deadline would not be enforced
	// /var/log/pods/default_web_u1
	// [--listen=:8080] app/0.log
	// own directory /var/log/pods/default_web_u1/app
}
