package staticpods

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

func validateContainers(f *findings, s *corev1.PodSpec) {
	if len(s.Containers) == 0 {
		f.add("spec.containers", "required: a pod has one container at least")
	}
	names := map[string]bool{}
	volumes := make([]string, len(s.Volumes))
	for i := range s.Volumes {
		volumes[i] = s.Volumes[i].Name
	}
	eachContainer(s, func(path string, c *corev1.Container) {
		validateUnique(f, path+".name", c.Name, names)
		validateContainer(f, path, c)
		validatePorts(f, path, c.Ports)
		if s.HostNetwork {
			validateNodePorts(f, path, c.Ports)
		}
		validateMounts(f, path, c, volumes)
		if c.RestartPolicy != nil {
			oneOf(f, path+".restartPolicy", *c.RestartPolicy,
				corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure, corev1.ContainerRestartPolicyNever)
		}
		validateProbes(f, path, c)
	})
	// Init containers run one after the other and may use the same ports as others; for
	// those with restartPolicy Always API servers say the same.
	for i := range s.InitContainers {
		path, c := at("spec.initContainers", i), &s.InitContainers[i]
		validateHostPorts(f, path, c.Ports, map[string]string{})
		validateInit(f, path, c)
	}
	hostPorts := map[string]string{}
	for i := range s.Containers {
		validateHostPorts(f, at("spec.containers", i), s.Containers[i].Ports, hostPorts)
	}
}

func validateContainer(f *findings, path string, c *corev1.Container) {
	if c.Image == "" {
		f.add(path+".image", "required")
	} else if strings.TrimSpace(c.Image) != c.Image {
		f.add(path+".image", "is %q, must not begin or end with blanks", c.Image)
	}
	validatePullPolicy(f, path+".imagePullPolicy", c.ImagePullPolicy)
	oneOf(f, path+".terminationMessagePolicy", c.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	validateEnv(f, path, c)
	validateResources(f, path+".resources", &c.Resources)
	validateSecurity(f, path+".securityContext", c.SecurityContext)
}

func validatePullPolicy(f *findings, path string, p corev1.PullPolicy) {
	oneOf(f, path, p, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
}

func validatePorts(f *findings, path string, ports []corev1.ContainerPort) {
	names := map[string]bool{}
	for i, p := range ports {
		at := at(path+".ports", i)
		if p.Name != "" {
			f.addAll(at+".name", validation.IsValidPortName(p.Name))
			if names[p.Name] {
				f.add(at+".name", "%q is used twice", p.Name)
			}
			names[p.Name] = true
		}
		if p.ContainerPort == 0 {
			f.add(at+".containerPort", "required")
		} else {
			f.addAll(at+".containerPort", validation.IsValidPortNum(int(p.ContainerPort)))
		}
		if p.HostPort != 0 {
			f.addAll(at+".hostPort", validation.IsValidPortNum(int(p.HostPort)))
		}
		if p.HostIP != "" {
			validateIP(f, at+".hostIP", p.HostIP)
		}
		oneOf(f, at+".protocol", p.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	}
}

// validateNodePorts checks the ports of a pod in the node's network.
func validateNodePorts(f *findings, path string, ports []corev1.ContainerPort) {
	for i, p := range ports {
		if p.HostPort != p.ContainerPort {
			f.add(at(path+".ports", i)+".hostPort", "is %d, must be the containerPort %d with hostNetwork", p.HostPort, p.ContainerPort)
		}
	}
}

// validateHostPorts refuses a host port that containers which run together ask for
// twice; taken has the path of the first for each.
func validateHostPorts(f *findings, path string, ports []corev1.ContainerPort, taken map[string]string) {
	for i, p := range ports {
		if p.HostPort == 0 {
			continue
		}
		field := at(path+".ports", i) + ".hostPort"
		key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
		if first, ok := taken[key]; ok {
			f.add(field, "%d/%s is taken by %s", p.HostPort, p.Protocol, first)
			continue
		}
		taken[key] = field
	}
}

func validateEnv(f *findings, path string, c *corev1.Container) {
	for i := range c.Env {
		e, at := &c.Env[i], at(path+".env", i)
		if e.Name == "" {
			f.add(at+".name", "required")
		} else {
			f.addAll(at+".name", validation.IsRelaxedEnvVarName(e.Name))
		}
		if e.ValueFrom == nil {
			continue
		}
		if e.Value != "" {
			f.add(at+".valueFrom", "cannot be set together with value")
		}
		if set := sourcesOf(*e.ValueFrom); len(set) != 1 {
			f.add(at+".valueFrom", "must have one source, has %d", len(set))
		}
		if ref := e.ValueFrom.FieldRef; ref != nil {
			validateFieldRef(f, at+".valueFrom.fieldRef", ref, envFields())
		}
		if ref := e.ValueFrom.ResourceFieldRef; ref != nil {
			validateResourceRef(f, at+".valueFrom.resourceFieldRef", ref)
		}
		if ref := e.ValueFrom.ConfigMapKeyRef; ref != nil {
			validateKeyRef(f, at+".valueFrom.configMapKeyRef", ref.Name, ref.Key)
		}
		if ref := e.ValueFrom.SecretKeyRef; ref != nil {
			validateKeyRef(f, at+".valueFrom.secretKeyRef", ref.Name, ref.Key)
		}
	}
	for i := range c.EnvFrom {
		at := at(path+".envFrom", i)
		if c.EnvFrom[i].Prefix != "" {
			f.addAll(at+".prefix", validation.IsRelaxedEnvVarName(c.EnvFrom[i].Prefix))
		}
		if set := sourcesOf(c.EnvFrom[i]); len(set) != 1 {
			f.add(at, "must have one source, has %d", len(set))
		}
	}
}

func validateKeyRef(f *findings, path, name, key string) {
	if name == "" {
		f.add(path+".name", "required")
	}
	if key == "" {
		f.add(path+".key", "required")
	}
}

func validateResources(f *findings, path string, r *corev1.ResourceRequirements) {
	for _, list := range []struct {
		name string
		list corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for name, q := range list.list {
			field := fmt.Sprintf("%s.%s[%s]", path, list.name, name)
			f.addAll(field, resourceName(name))
			if q.Sign() < 0 {
				f.add(field, "is %s, must not be negative", q.String())
			}
			if isCounted(name) && q.MilliValue()%1000 != 0 {
				f.add(field, "is %s, must be a whole number", q.String())
			}
		}
	}
	for name, request := range r.Requests {
		limit, limited := r.Limits[name]
		field := fmt.Sprintf("%s.requests[%s]", path, name)
		switch {
		case limited && request.Cmp(limit) > 0:
			f.add(field, "is %s, more than the limit %s", request.String(), limit.String())
		case isCounted(name) && !limited:
			f.add(field, "needs a limit: %s cannot be overcommitted", name)
		case isCounted(name) && request.Cmp(limit) != 0:
			f.add(field, "is %s, must be the limit %s: %s cannot be overcommitted", request.String(), limit.String(), name)
		}
	}
}

// resourceName returns what is wrong with the name of a container's resource:
// those of Kubernetes have no domain, extended ones must.
func resourceName(name corev1.ResourceName) []string {
	switch {
	case isHugePages(name), name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage:
		return nil
	case !strings.Contains(string(name), "/"):
		return []string{"is not a resource of containers; extended resources are written domain/name"}
	}
	return validation.IsQualifiedName(string(name))
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// isCounted is true for resources that come in whole pieces and cannot be
// overcommitted: huge pages and extended resources.
func isCounted(name corev1.ResourceName) bool {
	return isHugePages(name) || strings.Contains(string(name), "/")
}

func validateMounts(f *findings, path string, c *corev1.Container, volumes []string) {
	paths := map[string]bool{}
	for i, m := range c.VolumeMounts {
		at := at(path+".volumeMounts", i)
		if m.Name == "" {
			f.add(at+".name", "required")
		} else if !slices.Contains(volumes, m.Name) {
			f.add(at+".name", "names volume %q, which the pod does not have", m.Name)
		}
		validateMountPath(f, at+".mountPath", m.MountPath, paths)
		if m.SubPath != "" && m.SubPathExpr != "" {
			f.add(at+".subPathExpr", "cannot be set together with subPath")
		}
		validateRelative(f, at+".subPath", m.SubPath)
		validateRelative(f, at+".subPathExpr", m.SubPathExpr)
		validatePropagation(f, at, m, c.SecurityContext)
	}
	for i, d := range c.VolumeDevices {
		at := at(path+".volumeDevices", i)
		if !slices.Contains(volumes, d.Name) {
			f.add(at+".name", "names volume %q, which the pod does not have", d.Name)
		}
		validateMountPath(f, at+".devicePath", d.DevicePath, paths)
	}
}

func validateMountPath(f *findings, field, path string, seen map[string]bool) {
	switch {
	case path == "":
		f.add(field, "required")
	case strings.Contains(path, ":"):
		f.add(field, "is %q, must not contain ':'", path)
	case seen[path]:
		f.add(field, "%q is used twice", path)
	}
	seen[path] = true
}

func validatePropagation(f *findings, path string, m corev1.VolumeMount, sc *corev1.SecurityContext) {
	if m.MountPropagation != nil {
		oneOf(f, path+".mountPropagation", *m.MountPropagation,
			corev1.MountPropagationNone, corev1.MountPropagationHostToContainer, corev1.MountPropagationBidirectional)
		privileged := sc != nil && sc.Privileged != nil && *sc.Privileged
		if *m.MountPropagation == corev1.MountPropagationBidirectional && !privileged {
			f.add(path+".mountPropagation", "Bidirectional needs a privileged container")
		}
	}
	if m.RecursiveReadOnly == nil {
		return
	}
	field := path + ".recursiveReadOnly"
	oneOf(f, field, *m.RecursiveReadOnly,
		corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled)
	if *m.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return
	}
	if !m.ReadOnly {
		f.add(field, "needs readOnly: true")
	}
	if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
		f.add(field, "needs mountPropagation None")
	}
}

// warnRelativeMounts names mount paths without a leading slash: the API takes
// them, and runtimes read them from the root.
func warnRelativeMounts(vain *findings, pod *corev1.Pod) {
	eachContainer(&pod.Spec, func(path string, c *corev1.Container) {
		for i, m := range c.VolumeMounts {
			if m.MountPath != "" && !strings.HasPrefix(m.MountPath, "/") {
				vain.add(at(path+".volumeMounts", i)+".mountPath", "is %q, not an absolute path; it is mounted at %q", m.MountPath, "/"+m.MountPath)
			}
		}
	})
}

// validateInit refuses what only a container that goes on running can have.
func validateInit(f *findings, path string, c *corev1.Container) {
	if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		return
	}
	for _, p := range []struct {
		name string
		set  bool
	}{
		{"lifecycle", c.Lifecycle != nil},
		{"livenessProbe", c.LivenessProbe != nil},
		{"readinessProbe", c.ReadinessProbe != nil},
		{"startupProbe", c.StartupProbe != nil},
	} {
		if p.set {
			f.add(path+"."+p.name, "an init container may have it with restartPolicy Always only")
		}
	}
}

func validateSecurity(f *findings, path string, c *corev1.SecurityContext) {
	if c == nil {
		return
	}
	validateID(f, path+".runAsUser", c.RunAsUser)
	validateID(f, path+".runAsGroup", c.RunAsGroup)
	if c.ProcMount != nil {
		oneOf(f, path+".procMount", *c.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
	}
	validateSeccomp(f, path+".seccompProfile", c.SeccompProfile)
	validateAppArmor(f, path+".appArmorProfile", c.AppArmorProfile)
	if c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation {
		return
	}
	if c.Privileged != nil && *c.Privileged {
		f.add(path+".allowPrivilegeEscalation", "cannot be false in a privileged container")
	}
	if c.Capabilities != nil && slices.Contains(c.Capabilities.Add, "CAP_SYS_ADMIN") {
		f.add(path+".allowPrivilegeEscalation", "cannot be false together with the capability CAP_SYS_ADMIN")
	}
}

func validateProbes(f *findings, path string, c *corev1.Container) {
	validateProbe(f, path+".readinessProbe", c.ReadinessProbe)
	if p := c.ReadinessProbe; p != nil && p.TerminationGracePeriodSeconds != nil {
		f.add(path+".readinessProbe.terminationGracePeriodSeconds", "is for liveness and startup probes only")
	}
	validateStopping(f, path+".livenessProbe", c.LivenessProbe)
	validateStopping(f, path+".startupProbe", c.StartupProbe)
	if c.Lifecycle == nil {
		return
	}
	validateHandler(f, path+".lifecycle.postStart", c.Lifecycle.PostStart)
	validateHandler(f, path+".lifecycle.preStop", c.Lifecycle.PreStop)
}

// validateStopping checks a probe that may stop its container.
func validateStopping(f *findings, path string, p *corev1.Probe) {
	validateProbe(f, path, p)
	if p == nil {
		return
	}
	if p.SuccessThreshold != 1 {
		f.add(path+".successThreshold", "is %d, must be 1", p.SuccessThreshold)
	}
	if g := p.TerminationGracePeriodSeconds; g != nil && *g < 1 {
		f.add(path+".terminationGracePeriodSeconds", "is %d, must be 1 or more", *g)
	}
}

func validateProbe(f *findings, path string, p *corev1.Probe) {
	if p == nil {
		return
	}
	if set := sourcesOf(p.ProbeHandler); len(set) != 1 {
		f.add(path, "must have one of exec, grpc, httpGet, tcpSocket, has %d", len(set))
	}
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds},
		{"timeoutSeconds", p.TimeoutSeconds},
		{"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold},
		{"failureThreshold", p.FailureThreshold},
	} {
		if n.value < 0 {
			f.add(path+"."+n.name, "is %d, must not be negative", n.value)
		}
	}
	validateActions(f, path, p.Exec, p.HTTPGet, p.TCPSocket)
	if p.GRPC != nil {
		f.addAll(path+".grpc.port", validation.IsValidPortNum(int(p.GRPC.Port)))
	}
}

func validateHandler(f *findings, path string, h *corev1.LifecycleHandler) {
	if h == nil {
		return
	}
	if set := sourcesOf(*h); len(set) != 1 {
		f.add(path, "must have one of exec, httpGet, sleep, tcpSocket, has %d", len(set))
	}
	validateActions(f, path, h.Exec, h.HTTPGet, h.TCPSocket)
	if h.Sleep != nil && h.Sleep.Seconds < 0 {
		f.add(path+".sleep.seconds", "is %d, must not be negative", h.Sleep.Seconds)
	}
}

func validateActions(f *findings, path string, exec *corev1.ExecAction, http *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction) {
	if exec != nil && len(exec.Command) == 0 {
		f.add(path+".exec.command", "required")
	}
	if http != nil {
		oneOf(f, path+".httpGet.scheme", http.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
		validatePortRef(f, path+".httpGet.port", http.Port)
	}
	if tcp != nil {
		validatePortRef(f, path+".tcpSocket.port", tcp.Port)
	}
}

// validatePortRef checks a port by number or by name.
func validatePortRef(f *findings, path string, port intstr.IntOrString) {
	if port.Type == intstr.String {
		f.addAll(path, validation.IsValidPortName(port.StrVal))
		return
	}
	f.addAll(path, validation.IsValidPortNum(port.IntValue()))
}
