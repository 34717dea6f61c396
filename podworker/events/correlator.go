package events

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The limits of what is told, which are those of every client of Kubernetes
// (https://github.com/kubernetes/design-proposals-archive/blob/main/api-machinery/event_compression.md
// and the flood control of tools/record in client-go).
const (
	// remembered is how many events, groups and objects are told apart.
	remembered = 4096
	// maxSimilar events that differ only in their messages within similarFor are told
	// one by one; then they become one.
	maxSimilar = 10
	similarFor = 10 * time.Minute
	// burst events about an object may come at once, then one in refill.
	burst  = 25
	refill = 5 * time.Minute
)

// Verdict says what to do with an event.
type Verdict uint8

const (
	// Create means that the event is new.
	Create Verdict = iota + 1
	// Update means that an earlier event of the same name has another count, time and
	// perhaps message.
	Update
	// Drop means that there were too many about the object.
	Drop
)

// Correlator decides what becomes of events: the same again is counted, many similar
// ones become one, and a flood is cut off. It has no clock and does no I/O; it is not
// safe for use by several goroutines.
type Correlator struct {
	seen    cache[string, seen]
	similar cache[string, *group]
	budgets cache[string, *budget]
}

// seen is an event that was told.
type seen struct {
	name  string
	count int32
	first metav1.Time
}

// group has the messages, by [join], of events that differ in nothing else.
type group struct {
	messages []string
	last     time.Time
}

// over reports whether events to come are not similar any more.
func (g *group) over(now time.Time) bool { return now.Sub(g.last) > similarFor }

// budget is how many events about an object may still be told, at a time.
type budget struct {
	tokens float64
	at     time.Time
}

// left is how many events may be told now.
func (b *budget) left(now time.Time) float64 {
	return min(burst, b.tokens+now.Sub(b.at).Seconds()/refill.Seconds())
}

// NewCorrelator returns a Correlator that has seen nothing.
func NewCorrelator() *Correlator {
	return &Correlator{
		seen: newCache[string, seen](remembered), similar: newCache[string, *group](remembered), budgets: newCache[string, *budget](remembered),
	}
}

// Correlate returns the event as it is to be told, and whether it is new. The argument
// is not changed; its times are now.
func (c *Correlator) Correlate(e *corev1.Event, now time.Time) (*corev1.Event, Verdict) {
	out, key := c.combine(e, now)
	verdict := Create
	last, known := c.seen.get(key)
	if known {
		out.Name, out.FirstTimestamp, out.Count = last.name, last.first, last.count+1
		verdict = Update
	}
	c.seen.put(key, seen{name: out.Name, count: out.Count, first: out.FirstTimestamp})
	if !c.afford(out, now) {
		return nil, Drop
	}
	return out, verdict
}

// combine returns the event, or one that stands for all that are similar if there are
// many, and the key by which it is the same as an earlier one.
func (c *Correlator) combine(e *corev1.Event, now time.Time) (*corev1.Event, string) {
	out := e.DeepCopy()
	kind := join(object(e), e.Type, e.Reason, e.ReportingController, e.ReportingInstance)
	g, ok := c.similar.get(kind)
	if !ok || g.over(now) {
		g = &group{}
	}
	if message := join(e.Message); !slices.Contains(g.messages, message) {
		g.messages = append(g.messages, message)
	}
	g.last = now
	c.similar.put(kind, g)
	c.similar.trim(func(g *group) bool { return g.over(now) })
	if len(g.messages) < maxSimilar {
		return out, join(object(e), e.InvolvedObject.FieldPath, e.Type, e.Reason, e.Message)
	}
	g.messages = slices.Delete(g.messages, 0, 1) // any: the set need not grow
	out.Message = "(combined from similar events): " + e.Message
	return out, kind
}

// afford takes an event about an object from what may be told of it.
func (c *Correlator) afford(e *corev1.Event, now time.Time) bool {
	key := join(object(e), e.Type)
	b, ok := c.budgets.get(key)
	if !ok {
		b = &budget{tokens: burst, at: now}
	}
	c.budgets.put(key, b)
	b.tokens, b.at = b.left(now), now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	c.budgets.trim(func(b *budget) bool { return b.left(now) == burst })
	return true
}

// object tells objects and those who tell of them apart.
func object(e *corev1.Event) string {
	o := &e.InvolvedObject
	return join(e.Source.Component, e.Source.Host, o.APIVersion, o.Kind, o.Namespace, o.Name, string(o.UID))
}

// join makes a key of texts. It is short, as thousands of them are kept.
func join(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return string(sum[:16])
}

// nameOf returns the name of a new event about an object, whose own is cut where both
// together are longer than names may be.
func nameOf(object string, now time.Time) string {
	end := fmt.Sprintf(".%x", now.UnixNano())
	if most := validation.DNS1123SubdomainMaxLength - len(end); len(object) > most {
		object = strings.TrimRight(object[:most], "-.")
	}
	return object + end
}
