package admission_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/admission"
)

// A pod asks for more than is left.
func ExampleAdmit() {
	requests := func(cpu string) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}}}}
	}
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU:  resource.MustParse("2"),
		corev1.ResourcePods: resource.MustParse("110"),
	}}}
	running := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Spec: requests("900m")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "2"}, Spec: requests("1500m")}

	d := admission.Admit(pod, []*corev1.Pod{running}, admission.Node{Node: node})
	fmt.Println(d.Verdict, d.Reason)
	fmt.Println(d.Message)
	// Output:
	// not yet OutOfcpu
	// Node didn't have enough resource: cpu, requested: 1500, used: 900, capacity: 2000
}
