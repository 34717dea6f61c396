package proxiertest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

// The table, which stock kube-proxy passes, and the brute-force computation of the
// desired state agree.
func TestTableAgreesWithExpect(t *testing.T) {
	for _, s := range stories([]proxier.FrontendKind{clusterIP, nodePort, externalIP}) {
		t.Run(s.name, func(t *testing.T) {
			for i, step := range s.steps {
				o := objectsOf(step.services)
				state := Expect(proxier.Node{Name: NodeName}, o.Services, o.Slices)
				for _, f := range step.flows {
					for _, family := range families() {
						for _, protocol := range protocols() {
							to := target(f, step.services, family)
							got, known := predict(state, f.from, f.kind, protocol, to)
							if wrong := contradiction(f, step.services, got, known); wrong != "" {
								t.Errorf("step %d: %s by %s %s: %s", i+1, f, family, protocol, wrong)
							}
						}
					}
				}
			}
		})
	}
}

// contradiction returns in which way what the state says differs from the table.
func contradiction(f flow, services []service, got expectation, known bool) string {
	if !known {
		// What no Service has, the kernel refuses by itself.
		got = expect(refused)
	}
	// The client may stay with the endpoint it has: the table knows, the state does not.
	sticky := slices.ContainsFunc(services, func(s service) bool { return s.number == f.to && s.affinity })
	subset := !slices.ContainsFunc(f.want.among, func(h Host) bool { return !slices.Contains(got.among, h) })
	same := len(got.among) == len(f.want.among) && subset || sticky && subset || f.want.any
	hidden := got.masqueraded == f.want.masqueraded || f.from == OurNode || f.from == Pod1 || f.want.any
	if got.fate != f.want.fate || !same || !hidden {
		return fmt.Sprintf("the state says %s, the table %s", got, f.want)
	}
	return ""
}
