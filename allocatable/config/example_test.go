package config_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable"
	"github.com/nodekit-go/nodekit/allocatable/config"
)

// A program names the fields that it acts on, and shows its user the rest.
func ExampleLoad() {
	file := []byte(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: /etc/kubernetes/manifests
seccompDefault: true
healtzPort: 10248
`)
	cfg, problems, err := config.Load(file, []string{"staticPodPath", "fileCheckFrequency", "healthzPort"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.StaticPodPath, cfg.FileCheckFrequency.Duration, *cfg.HealthzPort)
	for _, p := range problems {
		fmt.Println(p.Severity, p)
	}
	// Output:
	// /etc/kubernetes/manifests 20s 10248
	// warning line 4: seccompDefault: is not honoured: pods are not confined by it
	// error line 5: healtzPort: unknown field; did you mean "healthzPort"?
}

// The reservations of a configuration are what Compute subtracts.
func ExampleReserved() {
	file := []byte(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
kubeReserved: {cpu: 80m, memory: 748480Ki}
`)
	cfg, _, err := config.Load(file, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	reserved, err := config.Reserved(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := allocatable.Compute(corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("4"),
		corev1.ResourceMemory: resource.MustParse("8141816Ki"),
		corev1.ResourcePods:   *resource.NewQuantity(config.Pods(cfg, 4), resource.DecimalSI),
	}, reserved)
	fmt.Println(result.Allocatable.Cpu(), result.Allocatable.Memory(), result.Allocatable.Pods(), err)
	// Output:
	// 3920m 7290936Ki 110 <nil>
}
