package soak

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// workload is the image of all pods.
func workload() testnode.Image {
	return testnode.Image{Ref: "nodekit.test/soak:1", Program: "test/soak/workload"}
}

const (
	// port is where the workload answers.
	port = 8080
	// farewell is how long a pod that is to end goes on serving, in seconds, so that
	// kube-proxy has heard of it before. Graceful means this.
	farewell = 15
	// settings is the name of the ConfigMap and of the Secret that change.
	settings = "settings"
	// labelApp says to what a pod belongs.
	labelApp = "app"
)

func meta(name, app string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{labelApp: app}}
}

// container runs the workload with small requests.
func container(name string, args ...string) corev1.Container {
	return corev1.Container{Name: name, Image: workload().Ref, ImagePullPolicy: corev1.PullNever, Args: args}
}

// newPod is a pod that ends at once when it is told to.
func newPod(name, app string, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta(name, app), Spec: corev1.PodSpec{
		Containers: containers, TerminationGracePeriodSeconds: new(int64(2)), EnableServiceLinks: new(false),
	}}
}

func asked(path string, period int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port)}},
		PeriodSeconds: period, TimeoutSeconds: 10, FailureThreshold: 3,
	}
}

// settingsFolders are where [withVolumes] shows the settings, by volume.
func settingsFolders() []string { return []string{"/config", "/secret", "/projected"} }

// withVolumes gives a pod a volume of each kind that keeps or tells something.
func withVolumes(pod *corev1.Pod) *corev1.Pod {
	config := corev1.LocalObjectReference{Name: settings}
	volumes := []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: config}}},
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: settings}}},
		{Name: "projected", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: config}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "soak"}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
			}}},
		}}}},
	}
	first := &pod.Spec.Containers[0]
	for _, v := range volumes {
		first.VolumeMounts = append(first.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	first.VolumeMounts = append(first.VolumeMounts, corev1.VolumeMount{Name: "scratch", MountPath: "/part", SubPath: "part"})
	pod.Spec.Volumes = append(pod.Spec.Volumes, volumes...)
	return pod
}

// churnPod is a pod of a kind that comes and goes.
func churnPod(kind Work, name string) *corev1.Pod {
	switch kind {
	case PodsCrashing:
		return newPod(name, appOf(kind), container("main", "-for", "1s", "-exit", "3"), container("beside"))
	case PodsFlapping:
		c := container("main", "-flap", "20s")
		c.ReadinessProbe, c.LivenessProbe = asked("/flap", 2), asked("/flap", 5)
		beside := container("beside", "-for", "24h")
		beside.ReadinessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/workload", "check", "-flap", "20s"}}},
			PeriodSeconds: 15, TimeoutSeconds: 10,
		}
		return newPod(name, appOf(kind), c, beside)
	case PodsEnding:
		pod := newPod(name, appOf(kind), container("main", "-for", "2s", "-exit", "1"))
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		return pod
	default:
		pod := withVolumes(newPod(name, appOf(kind), container("main"), container("beside", "-for", "24h")))
		pod.Spec.InitContainers = []corev1.Container{container("init", "-for", "100ms")}
		return pod
	}
}

// newDeployment is two pods that are replaced one by one, each when its successor is ready.
func newDeployment(name string) *appsv1.Deployment {
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	c := container("main")
	c.ReadinessProbe = asked("/", 2)
	c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: farewell}}}
	pod := newPod("", name, c)
	pod.Spec.TerminationGracePeriodSeconds = new(int64(2 * farewell))
	return &appsv1.Deployment{ObjectMeta: meta(name, name), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		Strategy: appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &none, MaxSurge: &one},
		},
		RevisionHistoryLimit: new(int32(1)), ProgressDeadlineSeconds: new(int32(stepLimit / time.Second)),
		Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
	}}
}

// newService leads to the pods of an app.
func newService(name, app string, kind corev1.ServiceType) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta(name, app), Spec: corev1.ServiceSpec{
		Type: kind, Selector: map[string]string{labelApp: app},
		Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(port)}},
	}}
}

// staticPod is the text of a manifest that is like none before.
func staticPod(version int) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "static"}, "spec": {"terminationGracePeriodSeconds": 1,
"containers": [{"name": "main", "image": %q, "imagePullPolicy": "Never", "env": [{"name": "VERSION", "value": "%d"}]}]}}`+"\n", workload().Ref, version)
}
