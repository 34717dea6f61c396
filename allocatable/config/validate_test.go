package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValidateNamesTheField(t *testing.T) {
	tests := []struct {
		text string
		want []string // "field: message", of errors
	}{
		{"runOnce: true", []string{"runOnce: is a mode that the kubelet no longer has"}},
		{"configMapAndSecretChangeDetectionStrategy: Never", []string{`configMapAndSecretChangeDetectionStrategy: is "Never", must be one of Get, Cache, Watch`}},
		{"authorization: {mode: Always}", []string{`authorization.mode: is "Always", must be one of AlwaysAllow, Webhook`}},
		{"tlsMinVersion: TLS12\ntlsCertFile: /c", []string{
			`tlsMinVersion: is "TLS12", must be one of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13`, "tlsCertFile: and tlsPrivateKeyFile must be set together",
		}},
		{"tlsCipherSuites: [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305, AES128]\ntlsCurvePreferences: [29, 0, 70000]", []string{
			`tlsCipherSuites[2]: is "AES128", which is no cipher suite of TLS that is known here`,
			"tlsCurvePreferences[1]: is 0, must be between 1 and 65535", "tlsCurvePreferences[2]: is 70000, must be between 1 and 65535",
		}},
		{"enableSystemLogQuery: true\nenableSystemLogHandler: false", []string{"enableSystemLogQuery: needs enableSystemLogHandler"}},
		{"kubeAPIQPS: -1\nkubeAPIBurst: -1\neventRecordQPS: -1\neventBurst: -1", []string{
			"kubeAPIQPS: is -1, must not be negative", "kubeAPIBurst: is -1, must not be negative",
			"eventRecordQPS: is -1, must not be negative", "eventBurst: is -1, must not be negative",
		}},
		{"nodeStatusMaxImages: -2\nnodeLeaseDurationSeconds: -1\npodsPerCore: -1", []string{
			"nodeStatusMaxImages: is -2, must be -1 for all, or a number", "nodeLeaseDurationSeconds: is -1, must not be negative", "podsPerCore: is -1, must not be negative",
		}},
		{"registerWithTaints: [{key: a, effect: Never}, {effect: NoExecute}]", []string{
			`registerWithTaints[0].effect: is "Never", must be one of NoSchedule, PreferNoSchedule, NoExecute`, "registerWithTaints[1]: has no key",
		}},
		{"crashLoopBackOff: {maxContainerRestartPeriod: 10m}", []string{"crashLoopBackOff.maxContainerRestartPeriod: is 10m0s, must be between 1s and 5m"}},
		{"maxOpenFiles: -1\noomScoreAdj: -1001\niptablesMasqueradeBit: 32\niptablesDropBit: -1\nhairpinMode: maybe", []string{
			"maxOpenFiles: is -1, must not be negative", "oomScoreAdj: is -1001, must be between -1000 and 1000",
			"iptablesMasqueradeBit: is 32, must be between 0 and 31", "iptablesDropBit: is -1, must be between 0 and 31",
			`hairpinMode: is "maybe", must be one of promiscuous-bridge, hairpin-veth, none`,
		}},
		{"userNamespaces: {idsPerPod: 1000}", []string{"userNamespaces.idsPerPod: is 1000, must be a multiple of 65536 below 4294967296"}},
		{"shutdownGracePeriod: 500ms\nshutdownGracePeriodCriticalPods: 10s\nshutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: -1}]", []string{
			"shutdownGracePeriod: is 500ms, must be 0 or at least 1s", "shutdownGracePeriodCriticalPods: is 10s, must not be more than shutdownGracePeriod, 500ms",
			"shutdownGracePeriodByPodPriority: and shutdownGracePeriod exclude each other",
			"shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds: is -1, must not be negative",
		}},
		{"cgroupDriver: docker\nsystemCgroups: /system", []string{`cgroupDriver: is "docker", must be one of cgroupfs, systemd`, "systemCgroups: needs cgroupRoot"}},
		{`kubeReserved: {cpu: "-1", memory: x, pods: "1"}`, []string{
			"kubeReserved[cpu]: is -1, must not be negative", `kubeReserved[memory]: is "x", must be a quantity like 100m or 1Gi`,
			"kubeReserved[pods]: cannot be reserved; what can is cpu, memory, ephemeral-storage and pid",
		}},
		{"reservedSystemCPUs: 3-1\nkubeReservedCgroup: /k", []string{
			`reservedSystemCPUs: list of CPUs "3-1": range 3-1 ends before it begins`, "reservedSystemCPUs: goes with neither systemReservedCgroup nor kubeReservedCgroup",
		}},
		{"enforceNodeAllocatable: [pods, pods, none, all]", []string{
			`enforceNodeAllocatable[1]: is "pods" again`, `enforceNodeAllocatable[2]: is "none", which stands alone`,
			`enforceNodeAllocatable[3]: is "all", must be one of pods, system-reserved, kube-reserved, system-reserved-compressible, kube-reserved-compressible, none`,
		}},
		{"enforceNodeAllocatable: [kube-reserved]", []string{`enforceNodeAllocatable[0]: is "kube-reserved", which needs kubeReservedCgroup`}},
		{"systemReservedCgroup: /s\nenforceNodeAllocatable:\n- system-reserved\n- system-reserved-compressible", []string{
			`enforceNodeAllocatable[1]: is "system-reserved-compressible", which excludes "system-reserved"`,
		}},
		{"cgroupsPerQOS: false", []string{`enforceNodeAllocatable: needs cgroupsPerQOS; write ["none"] to enforce nothing`}},
		{"cgroupsPerQOS: false\nenforceNodeAllocatable: [none]", nil},
		{"cpuManagerReconcilePeriod: -1s\ncpuManagerPolicyOptions: {full-pcpus-only: 'yes'}\ntopologyManagerPolicyOptions: {max-allowable-numa-nodes: '4'}", []string{
			"cpuManagerReconcilePeriod: is -1s, must be positive",
			`cpuManagerPolicyOptions: CPU manager policy option full-pcpus-only is "yes": want true or false`,
			`topologyManagerPolicyOptions: topology manager policy option max-allowable-numa-nodes is "4": want at least 8`,
		}},
		{"cpuCFSQuotaPeriod: 2s\ncpuManagerPolicy: dynamic\ntopologyManagerPolicy: strict\ntopologyManagerScope: node", []string{
			"cpuCFSQuotaPeriod: is 2s, must be between 1ms and 1s", `cpuManagerPolicy: is "dynamic", must be one of none, static`,
			`topologyManagerPolicy: is "strict", must be one of none, best-effort, restricted, single-numa-node`, `topologyManagerScope: is "node", must be one of container, pod`,
		}},
		{"memorySwap: {swapBehavior: All}\nmemoryThrottlingFactor: 1.5\nmemoryReservationPolicy: Hard\nmemoryManagerPolicy: Dynamic", []string{
			`memorySwap.swapBehavior: is "All", must be one of NoSwap, LimitedSwap`, "memoryThrottlingFactor: is 1.5, must be more than 0 and at most 1",
			`memoryReservationPolicy: is "Hard", must be one of None, TieredReservation`, `memoryManagerPolicy: is "Dynamic", must be one of None, Static`,
		}},
		{"reservedMemory:\n- {numaNode: -1, limits: {memory: 0}}\n- {numaNode: 0, limits: {cpu: 1}}\n- {numaNode: 0, limits: {memory: 1Gi}}\n- {numaNode: 0, limits: {memory: 2Gi}}", []string{
			"reservedMemory[0].limits[memory]: is 0, must be positive", "reservedMemory[0].numaNode: is -1, must not be negative",
			"reservedMemory[1].limits[cpu]: is no memory; there is memory and hugepages-<size>", "reservedMemory[3].limits[memory]: is set again for NUMA node 0",
		}},
		{"imageGCHighThresholdPercent: 101\nimageGCLowThresholdPercent: 101", []string{
			"imageGCHighThresholdPercent: is 101, must be between 0 and 100", "imageGCLowThresholdPercent: is 101, must be between 0 and 100",
			"imageGCLowThresholdPercent: is 101, must be less than imageGCHighThresholdPercent, 101",
		}},
		{"imageMaximumGCAge: 1m", []string{"imageMaximumGCAge: is 1m0s, must be more than imageMinimumGCAge, 2m0s"}},
		{"registryPullQPS: -1\nregistryBurst: -1\nmaxParallelImagePulls: 0", []string{
			"registryPullQPS: is -1, must not be negative", "registryBurst: is -1, must not be negative", "maxParallelImagePulls: is 0, must be positive",
		}},
		{"serializeImagePulls: true\nmaxParallelImagePulls: 3", []string{"maxParallelImagePulls: is 3, which needs serializeImagePulls: false"}},
		{"imagePullCredentialsVerificationPolicy: Sometimes\npreloadedImagesVerificationAllowlist: [a]", []string{
			`imagePullCredentialsVerificationPolicy: is "Sometimes", must be one of NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify`,
			"preloadedImagesVerificationAllowlist: needs imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages",
		}},
		{"podLogsDir: /var//log\ncontainerLogMaxSize: big\ncontainerLogMaxFiles: 1\ncontainerLogMaxWorkers: 0\ncontainerLogMonitorInterval: 1s", []string{
			`podLogsDir: is "/var//log", must be written without detours and in ASCII`, `containerLogMaxSize: is "big", must be a size like 10Mi`,
			"containerLogMaxFiles: is 1, must be at least 2", "containerLogMaxWorkers: is 0, must be positive", "containerLogMonitorInterval: is 1s, must be at least 3s",
		}},
		{"logging: {format: xml}\ntracing: {samplingRatePerMillion: 1000001}", []string{
			`logging.format: is "xml", must be one of text, json`, "tracing.samplingRatePerMillion: is 1000001, must be between 0 and 1000000",
		}},
		{"evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {nodefs.available: soon}\nevictionMinimumReclaim: {memory.available: \"0\", nodefs.available: x}", []string{
			"evictionSoft[memory.available]: has no entry in evictionSoftGracePeriod, which every soft threshold needs",
			`evictionSoftGracePeriod[nodefs.available]: is "soon", must be a duration like 1m30s`,
			`evictionMinimumReclaim[nodefs.available]: threshold "x": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
		}},
		{"evictionMaxPodGracePeriod: -1\nevictionPressureTransitionPeriod: -1s", []string{
			"evictionMaxPodGracePeriod: is -1, must not be negative", "evictionPressureTransitionPeriod: is -1s, must be positive",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			_, problems, err := Load([]byte(head+tt.text+"\n"), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range problems {
				if p.Severity == Error {
					got = append(got, p.Field+": "+p.Message)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
