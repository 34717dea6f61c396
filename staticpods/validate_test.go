package staticpods

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// problemsOf returns what Decode finds, without the words "line N: ".
func problemsOf(t *testing.T, text string) []string {
	t.Helper()
	_, err := Decode([]byte(text), "node-a")
	if err == nil {
		return nil
	}
	bad, ok := errors.AsType[*InvalidError](err)
	if !ok {
		t.Fatalf("error of type %T: %v", err, err)
	}
	var got []string
	for _, p := range bad.Problems {
		if p.Line == 0 {
			t.Errorf("no line: %s", p)
		}
		got = append(got, p.Field+": "+p.Message)
	}
	return got
}

// testProblems decodes plain with each text appended.
func testProblems(t *testing.T, tests []problemTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, problemsOf(t, plain+tt.text)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

const subdomainRule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', " +
	"and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"

type problemTest struct {
	name string
	text string
	want []string
}

const (
	inContainer = "spec.containers[0]."
	labelRule   = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an " +
		"alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)

func noSecret(name string) string {
	return "static pods may not reference secrets, except those that stand in a manifest beside them; none holds Secret default/" + name
}

func noConfigMap(name string) string {
	return "static pods may not reference configmaps, except those that stand in a manifest beside them; none holds ConfigMap default/" + name
}

func TestStaticPodsMayNotReferenceAPIObjects(t *testing.T) {
	testProblems(t, []problemTest{
		{name: "service account", text: "  serviceAccountName: a\n", want: []string{"spec.serviceAccountName: static pods may not reference serviceaccounts"}},
		{name: "service account by its old name", text: "  serviceAccount: a\n", want: []string{"spec.serviceAccountName: static pods may not reference serviceaccounts"}},
		{name: "pull secrets", text: "  imagePullSecrets: [{name: a}]\n", want: []string{"spec.imagePullSecrets[0]: " + noSecret("a")}},
		{name: "claims", text: "  resourceClaims: [{name: a, resourceClaimName: b}]\n", want: []string{"spec.resourceClaims: static pods may not reference resourceclaims"}},
		{name: "env", text: "    env:\n    - {name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}\n    - {name: B, valueFrom: {configMapKeyRef: {name: s, key: k}}}\n", want: []string{
			inContainer + "env[0].valueFrom.secretKeyRef: " + noSecret("s"),
			inContainer + "env[1].valueFrom.configMapKeyRef: " + noConfigMap("s"),
		}},
		{name: "envFrom", text: "    envFrom:\n    - {secretRef: {name: s}}\n    - {configMapRef: {name: s}}\n", want: []string{
			inContainer + "envFrom[0].secretRef: " + noSecret("s"),
			inContainer + "envFrom[1].configMapRef: " + noConfigMap("s"),
		}},
		{name: "volumes", text: "  volumes:\n  - {name: a}\n  - {name: b}\n  - {name: c, csi: {driver: x}}\n" +
			"  - {name: d, persistentVolumeClaim: {claimName: x}}\n  - {name: e, ephemeral: {}}\n  - {name: f, azureFile: {secretName: x, shareName: z}}\n" +
			"  - {name: g, glusterfs: {endpoints: x, path: z}}\n  - {name: h, cephfs: {monitors: [x], secretRef: {name: z}}}\n", want: []string{
			"spec.volumes[2].csi: static pods may not reference csi volumes",
			"spec.volumes[3].persistentVolumeClaim: static pods may not reference persistentvolumeclaims",
			"spec.volumes[4].ephemeral: static pods may not reference ephemeral volumes",
			"spec.volumes[5].azureFile: static pods may not reference azurefile volumes",
			"spec.volumes[6].glusterfs: static pods may not reference glusterfs volumes",
			"spec.volumes[7].cephfs.secretRef: static pods may not reference secrets",
		}},
		{name: "projected volumes", text: "  volumes:\n  - name: a\n    projected:\n      sources:\n" +
			"      - serviceAccountToken: {path: t}\n      - clusterTrustBundle: {name: x, path: z}\n      - podCertificate: {signerName: a/b, keyType: ED25519}\n", want: []string{
			"spec.volumes[0].projected.sources[0].serviceAccountToken: static pods may not reference serviceaccounts",
			"spec.volumes[0].projected.sources[1].clusterTrustBundle: static pods may not reference clustertrustbundles",
			"spec.volumes[0].projected.sources[2].podCertificate: static pods may not reference podcertificates",
		}},
		{name: "volumes of objects", text: "  volumes:\n  - {name: a, configMap: {name: x}}\n  - {name: b, secret: {secretName: x}}\n" +
			"  - name: c\n    projected:\n      sources:\n      - configMap: {name: x}\n      - secret: {name: x}\n", want: []string{
			"spec.volumes[0].configMap: " + noConfigMap("x"), "spec.volumes[1].secret: " + noSecret("x"),
			"spec.volumes[2].projected.sources[0].configMap: " + noConfigMap("x"), "spec.volumes[2].projected.sources[1].secret: " + noSecret("x"),
		}},
		{name: "optional references", text: "    env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}]\n    envFrom: [{configMapRef: {name: s, optional: true}}]\n" +
			"  volumes: [{name: a, configMap: {name: x, optional: true}}, {name: b, projected: {sources: [{secret: {name: x, optional: true}}]}}]\n"},
		{name: "allowed volumes", text: "  volumes:\n  - {name: a, hostPath: {path: /x, type: Directory}}\n  - {name: b, emptyDir: {medium: Memory, sizeLimit: 1Mi}}\n" +
			"  - {name: c, downwardAPI: {items: [{path: a/b, fieldRef: {fieldPath: \"metadata.labels['a']\"}}]}}\n  - {name: d, image: {reference: i}}\n" +
			"  - {name: e, nfs: {server: s, path: /p}}\n  - {name: f, projected: {sources: [{downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.uid}}]}}]}}\n"},
	})
	mirror := strings.Replace(plain, "  name: web\n", "  name: web\n  annotations: {kubernetes.io/config.mirror: x}\n", 1)
	want := []string{"metadata.annotations[kubernetes.io/config.mirror]: marks the mirror pod of a static pod; remove it"}
	if diff := cmp.Diff(want, problemsOf(t, mirror)); diff != "" {
		t.Errorf("a mirror pod (-want +got):\n%s", diff)
	}
}

func TestMetadataIsValidated(t *testing.T) {
	for _, tt := range []struct {
		name, meta string
		want       []string
	}{
		{name: "name", meta: "{name: We_b}", want: []string{"metadata.name: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', " +
			"and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"}},
		{name: "name that is too long with the node", meta: "{name: " + strings.Repeat("a", 250) + "}", want: []string{"metadata.name: must be no more than 253 characters"}},
		{name: "namespace", meta: "{name: web, namespace: a.b}", want: []string{"metadata.namespace: must not contain dots"}},
		{name: "uid that leaves its directory", meta: "{name: web, uid: ../../etc}", want: []string{"metadata.uid: must be letters, digits, '-', '_' and '.', 128 at most: it names directories"}},
		{name: "uid of dots", meta: "{name: web, uid: ..}", want: []string{"metadata.uid: must be letters, digits, '-', '_' and '.', 128 at most: it names directories"}},
		{name: "label", meta: "{name: web, labels: {a: b c}}", want: []string{"metadata.labels[a]: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', " +
			"and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"}},
		{name: "annotations", meta: "{name: web, annotations: {a: " + strings.Repeat("x", maxAnnotationBytes) + "}}", want: []string{"metadata.annotations: are 262233 bytes together, at most 262144 are allowed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(plain, "metadata:\n  name: web\n", "metadata: "+tt.meta+"\n", 1)
			if diff := cmp.Diff(tt.want, problemsOf(t, text)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestContainersAreValidated(t *testing.T) {
	testProblems(t, []problemTest{
		{name: "second container", text: "  - {name: app, image: i}\n  - {name: B, image: i}\n  - {image: i}\n  - {name: c}\n  - {name: d, image: \" i\", imagePullPolicy: Often}\n", want: []string{
			`spec.containers[1].name: "app" is used twice`, "spec.containers[2].name: " + labelRule, "spec.containers[3].name: required", "spec.containers[4].image: required",
			`spec.containers[5].image: is " i", must not begin or end with blanks`, `spec.containers[5].imagePullPolicy: is "Often", must be one of Always, IfNotPresent, Never`,
		}},
		{name: "init container of the same name", text: "  initContainers: [{name: app, image: i}]\n", want: []string{`spec.containers[0].name: "app" is used twice`}},
		{name: "ports", text: "    ports:\n    - {containerPort: 80, name: http, hostPort: 80}\n    - {containerPort: 80, name: http, protocol: ICMP}\n    - {name: \"8\"}\n    - {containerPort: 70000, hostIP: here}\n    - {containerPort: 81, hostPort: 80}\n", want: []string{
			inContainer + `ports[1].name: "http" is used twice`, inContainer + `ports[1].protocol: is "ICMP", must be one of TCP, UDP, SCTP`,
			inContainer + "ports[2].containerPort: required", inContainer + "ports[2].name: must contain at least one letter (a-z)",
			inContainer + "ports[3].containerPort: must be between 1 and 65535, inclusive", inContainer + `ports[3].hostIP: is "here", must be an IP address`,
			inContainer + "ports[4].hostPort: 80/TCP is taken by spec.containers[0].ports[0].hostPort",
		}},
		{name: "init containers with the ports of others", text: "    ports: [{containerPort: 80}]\n  - {name: side, image: i, ports: [{containerPort: 80}]}\n  hostNetwork: true\n  initContainers:\n" +
			"  - {name: a, image: i, ports: [{containerPort: 80}]}\n  - {name: b, image: i, restartPolicy: Always, ports: [{containerPort: 80}]}\n  - {name: c, image: i, ports: [{containerPort: 80}, {containerPort: 80}]}\n", want: []string{
			"spec.containers[1].ports[0].hostPort: 80/TCP is taken by spec.containers[0].ports[0].hostPort",
			"spec.initContainers[2].ports[1].hostPort: 80/TCP is taken by spec.initContainers[2].ports[0].hostPort",
		}},
		{name: "host network", text: "    ports: [{containerPort: 80, hostPort: 81}]\n  hostNetwork: true\n", want: []string{inContainer + "ports[0].hostPort: is 81, must be the containerPort 80 with hostNetwork"}},
		{name: "env", text: "    env:\n    - {value: x}\n    - {name: A=B}\n    - {name: C, value: x, valueFrom: {fieldRef: {fieldPath: status.phase}}}\n    - {name: D, valueFrom: {}}\n    - {name: E, valueFrom: {resourceFieldRef: {resource: cpu}}}\n", want: []string{
			inContainer + "env[0].name: required", inContainer + "env[1].name: a valid environment variable name must consist only of printable ASCII characters other than '='",
			inContainer + "env[2].valueFrom: cannot be set together with value",
			inContainer + `env[2].valueFrom.fieldRef.fieldPath: is "status.phase", must be one of ` + strings.Join(envFields(), ", "),
			inContainer + "env[3].valueFrom: must have one source, has 0",
			inContainer + `env[4].valueFrom.resourceFieldRef.resource: is "cpu", must be limits or requests of cpu, memory, ephemeral-storage or hugepages-<size>, like limits.cpu`,
		}},
		{name: "resources", text: "    resources:\n      limits: {cpu: 1, disk: 1, example.com/gpu: 1500m}\n      requests:\n        cpu: 2\n        memory: -1\n        hugepages-2Mi: 2Mi\n", want: []string{
			inContainer + "resources.limits[disk]: is not a resource of containers; extended resources are written domain/name",
			inContainer + "resources.limits[example.com/gpu]: is 1500m, must be a whole number",
			inContainer + "resources.requests[disk]: is not a resource of containers; extended resources are written domain/name",
			inContainer + "resources.requests[example.com/gpu]: is 1500m, must be a whole number",
			inContainer + "resources.requests[cpu]: is 2, more than the limit 1", inContainer + "resources.requests[memory]: is -1, must not be negative",
			inContainer + "resources.requests[hugepages-2Mi]: needs a limit: hugepages-2Mi cannot be overcommitted",
		}},
		{name: "mounts", text: "    volumeMounts:\n    - {name: a, mountPath: /x}\n    - {name: v, mountPath: /x}\n    - {name: v}\n    - {name: v, mountPath: \"/a:b\", subPath: ../c}\n    - {name: v, mountPath: /p, mountPropagation: Bidirectional}\n    - {name: v, mountPath: /q, recursiveReadOnly: Enabled}\n  volumes: [{name: v}]\n", want: []string{
			inContainer + `volumeMounts[0].name: names volume "a", which the pod does not have`, inContainer + `volumeMounts[1].mountPath: "/x" is used twice`,
			inContainer + "volumeMounts[2].mountPath: required", inContainer + `volumeMounts[3].mountPath: is "/a:b", must not contain ':'`,
			inContainer + `volumeMounts[3].subPath: is "../c", must not contain '..'`, inContainer + "volumeMounts[4].mountPropagation: Bidirectional needs a privileged container",
			inContainer + "volumeMounts[5].recursiveReadOnly: needs readOnly: true",
		}},
		{name: "probes", text: "    livenessProbe: {httpGet: {port: 80}, tcpSocket: {port: 80}, successThreshold: 2}\n    readinessProbe: {exec: {}, periodSeconds: -1}\n    startupProbe: {grpc: {port: 0}}\n    lifecycle: {preStop: {}}\n", want: []string{
			inContainer + "livenessProbe: must have one of exec, grpc, httpGet, tcpSocket, has 2", inContainer + "livenessProbe.successThreshold: is 2, must be 1",
			inContainer + "readinessProbe.exec.command: required", inContainer + "readinessProbe.periodSeconds: is -1, must not be negative",
			inContainer + "startupProbe.grpc.port: must be between 1 and 65535, inclusive", inContainer + "lifecycle.preStop: must have one of exec, httpGet, sleep, tcpSocket, has 0",
		}},
		{name: "init container with a probe", text: "  initContainers:\n  - {name: a, image: i, startupProbe: {tcpSocket: {port: 1}}}\n  - {name: b, image: i, restartPolicy: Always, startupProbe: {tcpSocket: {port: 1}}}\n", want: []string{
			"spec.initContainers[0].startupProbe: an init container may have it with restartPolicy Always only",
		}},
		{name: "security", text: "    securityContext: {runAsUser: -1, privileged: true, allowPrivilegeEscalation: false, seccompProfile: {type: Localhost}, appArmorProfile: {type: Unconfined, localhostProfile: x}}\n", want: []string{
			inContainer + "securityContext.allowPrivilegeEscalation: cannot be false in a privileged container",
			inContainer + "securityContext.appArmorProfile.localhostProfile: may be set with type Localhost only",
			inContainer + "securityContext.runAsUser: is -1, must be between 0 and 2147483647", inContainer + "securityContext.seccompProfile.localhostProfile: required with type Localhost",
		}},
		{name: "profiles", text: "    securityContext: {seccompProfile: {type: Localhost, localhostProfile: /a}, appArmorProfile: {type: Localhost, localhostProfile: /usr/sbin/ntpd}}\n", want: []string{
			inContainer + `securityContext.seccompProfile.localhostProfile: is "/a", must be a relative path`,
		}},
		{name: "names of AppArmor profiles", text: "    securityContext: {appArmorProfile: {type: Localhost, localhostProfile: \"a \"}}\n  - {name: b, image: i, securityContext: {appArmorProfile: {type: Localhost, localhostProfile: " + strings.Repeat("x", maxAppArmorName+1) + "}}}\n", want: []string{
			inContainer + `securityContext.appArmorProfile.localhostProfile: is "a ", must not begin or end with blanks`,
			"spec.containers[1].securityContext.appArmorProfile.localhostProfile: has 4096 bytes, must not have more than 4095",
		}},
	})
}

func TestPodSpecIsValidated(t *testing.T) {
	testProblems(t, []problemTest{
		{name: "policies", text: "  restartPolicy: Sometimes\n  dnsPolicy: Mine\n  terminationGracePeriodSeconds: -1\n  activeDeadlineSeconds: 0\n  os: {name: plan9}\n", want: []string{
			`spec.restartPolicy: is "Sometimes", must be one of Always, OnFailure, Never`, `spec.dnsPolicy: is "Mine", must be one of ClusterFirst, ClusterFirstWithHostNet, Default, None`,
			"spec.terminationGracePeriodSeconds: is -1, must not be negative", "spec.activeDeadlineSeconds: is 0, must be between 1 and 2147483647", `spec.os.name: is "plan9", must be one of linux, windows`,
		}},
		{name: "DNS", text: "  dnsPolicy: None\n", want: []string{"spec.dnsConfig: required with dnsPolicy None"}},
		{name: "DNS servers", text: "  dnsConfig: {nameservers: [1.1.1.1, 1.1.1.2, 1.1.1.3, here], options: [{value: x}]}\n", want: []string{
			"spec.dnsConfig.nameservers: has 4 entries, at most 3 are allowed", `spec.dnsConfig.nameservers[3]: is "here", must be an IP address`, "spec.dnsConfig.options[0].name: required",
		}},
		{name: "host", text: "  hostname: a.b\n  hostPID: true\n  shareProcessNamespace: true\n  hostUsers: false\n  hostAliases: [{ip: x, hostnames: [a]}]\n", want: []string{
			"spec.hostname: must not contain dots", "spec.shareProcessNamespace: cannot be set together with hostPID",
			"spec.hostUsers: cannot be false together with hostNetwork, hostPID or hostIPC", `spec.hostAliases[0].ip: is "x", must be an IP address`,
		}},
		{name: "tolerations", text: "  tolerations:\n  - {operator: Equal, value: x}\n  - {operator: Exists, value: x, effect: Never}\n  - {key: a, operator: Exists, tolerationSeconds: 5}\n", want: []string{
			"spec.tolerations[0].operator: must be Exists when key is empty", `spec.tolerations[1].effect: is "Never", must be one of NoSchedule, PreferNoSchedule, NoExecute`,
			"spec.tolerations[1].value: must be empty with operator Exists", "spec.tolerations[2].effect: must be NoExecute when tolerationSeconds is set",
		}},
		{name: "security", text: "  securityContext: {fsGroup: -5, sysctls: [{name: a.b, value: x}, {name: a/b, value: z}]}\n", want: []string{
			"spec.securityContext.fsGroup: is -5, must be between 0 and 2147483647", `spec.securityContext.sysctls[1].name: "a/b" is set twice`,
		}},
		{name: "what only a live pod has", text: "  ephemeralContainers: [{name: a, image: i}]\n  schedulingGates: [{name: a}]\n", want: []string{
			"spec.ephemeralContainers: cannot be set on a pod that is created", "spec.schedulingGates: cannot hold a pod that has its node",
		}},
		{name: "volumes", text: "  volumes:\n  - {name: a}\n  - {name: a}\n  - {name: B}\n  - {name: c, hostPath: {path: /x/../y}, emptyDir: {}}\n  - {name: d, hostPath: {path: \"\", type: Folder}}\n  - {name: e, emptyDir: {medium: Tape, sizeLimit: -1}}\n" +
			"  - {name: f, downwardAPI: {items: [{path: /a, mode: 4096}]}}\n  - {name: g, nfs: {path: x}}\n  - {name: h, image: {}}\n" +
			"  - {name: i, configMap: {optional: true, items: [{key: \"\", path: ../x, mode: -1}]}}\n  - {name: j, projected: {sources: [{}, {secret: {name: A/b, optional: true}}]}}\n", want: []string{
			`spec.volumes[1].name: "a" is used twice`, "spec.volumes[2].name: " + labelRule, "spec.volumes[3]: has more than one source: hostPath, emptyDir",
			"spec.volumes[3].hostPath.path: is \"/x/../y\", must not contain '..'", "spec.volumes[4].hostPath.path: required",
			`spec.volumes[4].hostPath.type: is "Folder", must be one of DirectoryOrCreate, Directory, FileOrCreate, File, Socket, CharDevice, BlockDevice`,
			`spec.volumes[5].emptyDir.medium: is "Tape", must be one of Memory, HugePages`, "spec.volumes[5].emptyDir.sizeLimit: is -1, must not be negative",
			"spec.volumes[6].downwardAPI.items[0]: needs fieldRef or resourceFieldRef", "spec.volumes[6].downwardAPI.items[0].mode: is 010000, must be between 0 and 0777",
			`spec.volumes[6].downwardAPI.items[0].path: is "/a", must be a relative path`, `spec.volumes[7].nfs.path: is "x", must be an absolute path`, "spec.volumes[7].nfs.server: required",
			"spec.volumes[8].image.reference: required",
			"spec.volumes[9].configMap.items[0].key: required", "spec.volumes[9].configMap.items[0].mode: is -01, must be between 0 and 0777",
			"spec.volumes[9].configMap.items[0].path: is \"../x\", must not contain '..'", "spec.volumes[9].configMap.name: required",
			"spec.volumes[10].projected.sources[0]: must have one source, has 0", "spec.volumes[10].projected.sources[1].secret.name: " + subdomainRule,
		}},
	})
	got := problemsOf(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n")
	if diff := cmp.Diff([]string{"spec.containers: required: a pod has one container at least"}, got); diff != "" {
		t.Errorf("a pod without containers (-want +got):\n%s", diff)
	}
}
