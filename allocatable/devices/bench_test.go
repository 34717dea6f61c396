package devices

import (
	"fmt"
	"testing"

	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// BenchmarkDecision allocates 8 devices to each of 110 pods, on a machine with 880 devices
// at two NUMA nodes; the plugin is not part of it.
func BenchmarkDecision(b *testing.B) {
	const pods, each = 110, 8
	devices := map[string]Device{}
	for i := range pods * each {
		id := fmt.Sprintf("gpu-%03d", i)
		devices[id] = Device{ID: id, Healthy: true, Nodes: []int{i % 2}}
	}
	cfg, err := Config{Dir: "/plugins", NUMANodes: 0b11}.validate()
	if err != nil {
		b.Fatal(err)
	}
	requests := make([]topology.Request, 0, pods)
	for i := range pods {
		pod := newPod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("app=%d", each))
		requests = append(requests, topology.Request{Pod: pod, Container: &pod.Spec.Containers[0]})
	}
	b.ReportAllocs()
	for b.Loop() {
		m := newWith(cfg, nil, &memoryFile{})
		p := &plugin{resource: gpu, socket: "s", close: func() {}}
		m.offers.arrived(p)
		m.offers.listed(p, devices)
		for _, r := range requests {
			hints := m.Hints(r)[gpu]
			if err := m.Allocate(b.Context(), r, hints[0]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/pods, "µs/pod")
}

// BenchmarkCheckpoint formats what 110 pods with 8 devices each have.
func BenchmarkCheckpoint(b *testing.B) {
	book := newLedger()
	for pod := range 110 {
		ids := make([]string, 0, 8)
		for i := range 8 {
			ids = append(ids, fmt.Sprintf("gpu-%d-%d", pod, i))
		}
		answer := &deviceapi.ContainerAllocateResponse{Envs: map[string]string{"GPUS": fmt.Sprint(ids)}}
		book.put(owner{newPod(fmt.Sprint(pod)).UID, "app", gpu}, &share{places: map[int64][]string{0: ids}, answer: answer})
	}
	b.ReportAllocs()
	for b.Loop() {
		entries, err := book.entries()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := (checkpointData{PodDeviceEntries: entries, RegisteredDevices: map[string][]string{gpu: {}}}).format(); err != nil {
			b.Fatal(err)
		}
	}
}
