package node_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/podworker/events"
)

// scenarios are the tests in which an event of this node is told, "directory test", by its
// reason.
func scenarios() map[string]string {
	const pods, images, collector = "podworker/podsync TestEveryEventIsTold", "runtime/images TestEvents", "runtime/images/gc "
	const here, fits, status = "examples/kubelet/node ", "podworker/admission ", "lease/nodestatus "
	told := map[string]string{
		"Pulling": images, "Pulled": images, "ErrImageNeverPull": images, "InspectFailed": images,
		"FailedToRetrieveImagePullSecret": "runtime/images TestSecretsThatCannotBeHad",
		"Unhealthy":                       "probes TestAttemptEventsAndMetrics",
		"ProbeWarning":                    "probes TestAttemptEventsAndMetrics",
		"LifecycleHTTPFallback":           "podworker/podsync TestHookHeaders",
		"FailedMount":                     "podworker/podsync TestPodWaitsForItsVolumes",
		"VolumeAttachmentLimitExceeded":   here + "TestPodThatFindsNoPlaceForItsVolumeFails",
		"VolumeResizeFailed":              "podworker/volume/csi TestRefusedGrowth",
		"FileSystemResizeFailed":          "podworker/volume/csi TestGrowthIsTold",
		"FileSystemResizeSuccessful":      "podworker/volume/csi TestGrowthIsTold",
		"Preempting":                      here + "TestImportantPodTakesThePlaceOfAnother",
		"Evicted":                         here + "TestPodsAreEvictedWhenMemoryRunsShort",
		"EvictionThresholdMet":            here + "TestPodsAreEvictedWhenMemoryRunsShort",
		"NodeShutdown":                    here + "TestMachineThatGoesDown",
		"OutOf":                           here + "TestPodsStartWhereThereIsRoom",
		"NodeAffinity":                    here + "TestPodThatWantsALabelOfTheNode",
		"CheckLimitsForResolvConf":        here + "TestResolverConfigurationIsChecked",
		"SysctlForbidden":                 fits + "TestSysctls",
		"InvalidNodeInfo":                 fits + "TestPressureAndShutdown",
		"Rebooted":                        status + "TestRebootIsTold",
		"NodeReady":                       status + "TestChangesAreReportedWithinAPeriod",
		"NodeHasSufficientMemory":         status + "TestChangesAreReportedWithinAPeriod",
		"ImageGCFailed":                   collector + "TestRun",
		"FreeDiskSpaceFailed":             collector + "TestNothingToRemove",
		"InvalidDiskCapacity":             collector + "TestFileSystems",
		"Shutdown":                        here + "TestMachineThatGoesDown",
		"Starting":                        here + "TestStartIsTold",
	}
	for _, reason := range []string{"PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported", "SupplementalGroupsPolicyNotSupported", "AppArmor"} {
		told[reason] = fits + "TestPlatform"
	}
	for _, reason := range []string{
		"Created", "Started", "Killing", "BackOff", "Failed", "FailedPostStartHook", "FailedPreStopHook", "SandboxChanged", "FailedCreatePodSandBox",
		"FailedPodSandBoxStatus", "NetworkNotReady", "FailedCreatePodContainer", "FailedKillPod", "FailedSync", "DeadlineExceeded", "DNSConfigForming",
		"MissingClusterDNS", "ResizeStarted", "ResizeCompleted", "ResizeDeferred", "ResizeInfeasible", "ResizeError", "UnsupportedField",
	} {
		told[reason] = pods
	}
	return told
}

// silence says why a kubelet's event is not told here.
func silence() map[string]string {
	return map[string]string{
		"ExceededGracePeriod":               "the runtime is asked again until the pod has stopped, see FailedKillPod; who evicts does not give up",
		"FailedValidation":                  "manifests that are not valid are shown by /manifests and the log: there is no pod to tell of",
		"FailedPrepareDynamicResources":     "pods with resource claims are refused",
		"HostIPsIPFamilyMismatch":           "addresses of the other family are left out of the status of the pod",
		"FailedAttachVolume":                "volumes are attached by the controller of the cluster",
		"FailedMapVolume":                   "what keeps a block device from a pod is FailedMount, as for every volume",
		"SuccessfulMountVolume":             "that all is well shows itself by Started",
		"VolumePermissionChangeInProgress":  "the change shows in FailedMount when it takes longer than a pod waits",
		"TopologyAffinityError":             "there is no topology manager",
		"SMTAlignmentError":                 "there is no static CPU policy",
		"UnexpectedAdmissionError":          "no device, CPU or memory manager has a say",
		"FailedNodeDeclaredFeaturesCheck":   "no pod needs a feature of which the node does not know",
		"ContainerGCFailed":                 "dead containers that stay are in the log, and tried again each minute",
		"SystemOOM":                         "the log of the kernel is not read",
		"KubeletSetupFailed":                "the program ends with the error",
		"CgroupV1":                          "cgroup v1 is supported",
		"NodeAllocatableEnforced":           "told by the node that enforces; shown on a real machine",
		"FailedNodeAllocatableEnforcement":  "told by the node that enforces; shown on a real machine",
		"PossibleMemoryBackedVolumesOnDisk": "told on machines with swap that a tmpfs cannot be kept out of",
	}
}

// TestEveryKindOfEventIsToldOrNot goes through the kinds of events of a kubelet: of each is
// said in which test it is told, which has to name it, or why it never is.
func TestEveryKindOfEventIsToldOrNot(t *testing.T) {
	told, silent := scenarios(), silence()
	for _, kind := range events.Catalog() {
		reason, _, _ := strings.Cut(kind.Reason, "|") // some kinds have several of one family
		reason = strings.TrimSuffix(reason, `\S+`)
		reason = strings.TrimSuffix(reason, "S+")
		reason = strings.TrimSuffix(reason, `\`)
		where, ok := told[reason]
		switch {
		case ok == (silent[reason] != ""):
			t.Errorf("%s: it is said neither where it is told nor why it is not, or both", reason)
		case ok:
			dir, test, _ := strings.Cut(where, " ")
			if !names(t, filepath.Join("../../..", dir), test, reason) {
				t.Errorf("%s: %s does not name it", reason, where)
			}
		}
	}
}

// names reports whether a test of a package, or a function beside it that has its cases,
// names a reason.
func names(t *testing.T, dir, test, reason string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range tree.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == test {
				return mentions(tree, reason)
			}
		}
	}
	return false
}

// mentions reports whether a string in a file has a word.
func mentions(tree *ast.File, word string) bool {
	found := false
	ast.Inspect(tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, word) {
			found = true
		}
		return !found
	})
	return found
}
