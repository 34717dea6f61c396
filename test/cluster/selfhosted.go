package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodekit-go/nodekit/test/images"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// StartSelfHosted makes a cluster of one node on which the control plane runs, too: etcd
// and the API server are static pods of its kubelet, as on a node that kubeadm makes.
// There are no controllers, no scheduler and no kube-proxy, and of the programs only
// those of [Cluster.Node] can be ended. It returns when the kubelet runs; the API server
// takes a while longer, see [Cluster.WaitAPI]. Of cfg, Name, Logs, Node, Images and
// Progress count.
func StartSelfHosted(ctx context.Context, cfg Config) (*Cluster, error) {
	if cfg.Name == "" {
		cfg.Name = "selfhosted"
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	archive, err := images.ControlPlane(ctx, images.Config{Progress: cfg.Progress})
	if err != nil {
		return nil, err
	}
	place, err := testnode.Start(ctx, testnode.Config{
		Name: cfg.Name, Logs: cfg.Logs, Isolated: true, Progress: cfg.Progress,
		Network: func(ctx context.Context, node *testnode.Node) error { return makeOwnHub(ctx, node) },
		Plugins: func(node *testnode.Node) []map[string]any { return podNetwork(node, 0) },
	})
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg: cfg, plane: place,
		binaries: &binaries{dir: place.Dir("bin"), paths: map[string]string{}},
		admin:    place.Dir("admin.kubeconfig"),
	}
	c.stop = once(c.destroy)
	cfg.Images = append([]string{archive}, cfg.Images...)
	if err := c.bootSelfHosted(ctx, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("start cluster %s: %w", c.Name(), err), c.Stop(ctx))
	}
	return c, nil
}

// makeOwnHub makes a hub whose only node is itself.
func makeOwnHub(ctx context.Context, node *testnode.Node) error {
	if err := makeHub(ctx, node); err != nil {
		return err
	}
	return node.IP(ctx,
		[]string{"address", "add", nodeAddress(0).String() + "/24", "dev", bridge},
		[]string{"route", "add", "default", "dev", bridge},
	)
}

// bootSelfHosted starts the kubelet with the manifests of the control plane.
func (c *Cluster) bootSelfHosted(ctx context.Context, cfg Config) error {
	n := c.claimNode(cfg.Node)
	n.Node = c.plane
	c.nodes = []*Node{n}
	if err := c.writeCredentials(); err != nil {
		return err
	}
	if err := c.issueNode(n); err != nil {
		return err
	}
	var err error
	if c.api, err = c.newAPIClient(); err != nil {
		return err
	}
	cluster, err := images.Cluster(ctx, images.Config{Progress: cfg.Progress})
	if err != nil {
		return err
	}
	for _, archive := range append(cfg.Images, cluster) {
		if err := n.ImportArchive(ctx, archive); err != nil {
			return err
		}
	}
	for name, pod := range map[string]*corev1.Pod{"etcd": c.etcdPod(), "kube-apiserver": c.apiServerPod()} {
		if err := writeJSON(filepath.Join(n.Manifests(), name+".json"), pod); err != nil {
			return err
		}
	}
	if err := os.Mkdir(c.plane.Dir("etcd"), 0o700); err != nil {
		return err
	}
	n.runtime = n.runtimeProgram()
	if err := n.newPrograms(ctx); err != nil {
		return err
	}
	cfg.Progress("the kubelet starts with the manifests of the control plane")
	return n.kubelet.Start(ctx)
}

// WaitAPI waits until the API server answers that it is ready.
func (c *Cluster) WaitAPI(ctx context.Context) error {
	return testnode.Eventually(ctx, startLimit, "the API server is ready", func(ctx context.Context) error {
		return c.api.get(ctx, "/readyz", nil)
	})
}

// etcdPod and apiServerPod are the manifests of the control plane.
func (c *Cluster) etcdPod() *corev1.Pod {
	pod := controlPlanePod("etcd", images.EtcdRef, c.etcdFlags())
	mountHost(pod, c.plane.Dir("etcd"))
	pod.Spec.Containers[0].LivenessProbe = probe("127.0.0.1", 2379, corev1.URISchemeHTTP, "/health")
	return pod
}

func (c *Cluster) apiServerPod() *corev1.Pod {
	pod := controlPlanePod("kube-apiserver", images.APIServerRef, c.apiServerFlags())
	mountHost(pod, c.plane.Dir("pki"))
	pod.Spec.Containers[0].ReadinessProbe = probe(hubAddress, apiPort, corev1.URISchemeHTTPS, "/readyz")
	return pod
}

// controlPlanePod is the manifest of a program of the control plane.
func controlPlanePod(name, image string, flags []string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: name, Labels: map[string]string{"component": name},
		},
		Spec: corev1.PodSpec{
			HostNetwork:       true,
			PriorityClassName: "system-node-critical",
			Priority:          new(int32(2000001000)),
			Containers: []corev1.Container{{
				Name: name, Image: image, Args: flags, ImagePullPolicy: corev1.PullNever,
			}},
		},
	}
}

// mountHost gives a pod a folder of the machine at the same place.
func mountHost(pod *corev1.Pod, dir string) {
	name := filepath.Base(dir)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: dir, Type: new(corev1.HostPathDirectory)},
	}})
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: dir})
}

// probe asks a server of the machine. It may take its time on a busy one.
func probe(host string, port int, scheme corev1.URIScheme, path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Host: host, Port: intstr.FromInt(port), Scheme: scheme, Path: path,
		}},
		PeriodSeconds: 1, TimeoutSeconds: 15, FailureThreshold: 120,
	}
}
