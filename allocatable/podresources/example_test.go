package podresources_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/nodekit-go/nodekit/allocatable/podresources"
)

// pods is a node with one pod.
type pods struct{ pod *corev1.Pod }

func (p pods) Active() []*corev1.Pod                 { return []*corev1.Pod{p.pod} }
func (p pods) Named(_, _ string) (*corev1.Pod, bool) { return p.pod, true }

// cpus has the CPUs 2 and 3 for every container.
type cpus struct{}

func (cpus) Assigned(types.UID, string) []int { return []int{2, 3} }
func (cpus) Allocatable() []int               { return []int{1, 2, 3} }

func Example() {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	server, err := podresources.New(podresources.Config{Pods: pods{pod}, CPUs: cpus{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	// go server.Run(ctx, listener) serves this on a socket.
	answer, err := server.List(context.Background(), &resourcesapi.ListPodResourcesRequest{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range answer.GetPodResources()[0].GetContainers() {
		fmt.Println(c.GetName(), "has CPUs", c.GetCpuIds())
	}
	// Output: app has CPUs [2 3]
}
