package proxier

import (
	"fmt"
	"strconv"
	"strings"
)

// Annotations of a Service that say how its connections are spread over endpoints, for
// Backends that can do it in several ways.
const (
	// AnnotationScheduler names a scheduler of IPVS, such as "lc".
	AnnotationScheduler = "nodekit.io/scheduler"
	// AnnotationWeights gives weights to endpoints by where they run: "local=3,other=1".
	// What is not named weighs 1.
	AnnotationWeights = "nodekit.io/weights"
)

// Balance is how connections are spread over the endpoints of a ServicePort. The zero
// value is what the Backend does by itself, with all endpoints alike.
type Balance struct {
	// Scheduler is the name of a scheduler of the Backend; empty means its default.
	Scheduler string
	// LocalWeight is the weight of endpoints of this node, OtherWeight that of others.
	// 0 means 1.
	LocalWeight uint16
	OtherWeight uint16
}

// Weight returns the weight of an endpoint, at least 1.
func (b Balance) Weight(e Endpoint) uint16 {
	if e.Local {
		return max(b.LocalWeight, 1)
	}
	return max(b.OtherWeight, 1)
}

// String returns "lc local=3,other=1", without what is not set.
func (b Balance) String() string {
	words := []string{}
	if b.Scheduler != "" {
		words = append(words, b.Scheduler)
	}
	if b.LocalWeight != 0 || b.OtherWeight != 0 {
		words = append(words, fmt.Sprintf("local=%d,other=%d", max(b.LocalWeight, 1), max(b.OtherWeight, 1)))
	}
	return strings.Join(words, " ")
}

// parseBalance reads the annotations.
func parseBalance(annotations map[string]string, p *problems) Balance {
	var b Balance
	if s, ok := annotations[AnnotationScheduler]; ok {
		if validScheduler(s) {
			b.Scheduler = intern(s)
		} else {
			p.add(annotation(AnnotationScheduler), "%q is not the name of a scheduler; the default is used", s)
		}
	}
	if s, ok := annotations[AnnotationWeights]; ok {
		local, other, err := parseWeights(s)
		if err != nil {
			p.add(annotation(AnnotationWeights), "%v; endpoints weigh the same", err)
		} else {
			b.LocalWeight, b.OtherWeight = local, other
		}
	}
	return b
}

func annotation(name string) string { return "metadata.annotations[" + name + "]" }

// maxSchedulerName is IP_VS_SCHEDNAME_MAXLEN of linux/ip_vs.h without the final zero.
const maxSchedulerName = 15

func validScheduler(s string) bool {
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' }
	return s != "" && len(s) <= maxSchedulerName && !strings.ContainsFunc(s, other)
}

// parseWeights reads "local=3,other=1".
func parseWeights(s string) (local, other uint16, err error) {
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil || n == 0 {
			return 0, 0, fmt.Errorf("%q: the weight is not in 1..65535", part)
		}
		switch name {
		case "local":
			local = uint16(n)
		case "other":
			other = uint16(n)
		default:
			return 0, 0, fmt.Errorf("%q is neither local=N nor other=N", part)
		}
	}
	return local, other, nil
}
