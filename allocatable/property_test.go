package allocatable

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

// anyAmount draws amounts of every format and grain, small and beyond any machine.
func anyAmount() *rapid.Generator[resource.Quantity] {
	return rapid.Custom(func(t *rapid.T) resource.Quantity {
		value := rapid.OneOf(rapid.Int64Range(0, 1<<12), rapid.Int64Range(0, 1<<62)).Draw(t, "value")
		format := rapid.SampledFrom([]resource.Format{resource.BinarySI, resource.DecimalSI, resource.DecimalExponent}).Draw(t, "format")
		if rapid.Bool().Draw(t, "milli") {
			return *resource.NewMilliQuantity(value, format)
		}
		return *resource.NewQuantity(value, format)
	})
}

func anyList(names ...corev1.ResourceName) *rapid.Generator[corev1.ResourceList] {
	return rapid.Custom(func(t *rapid.T) corev1.ResourceList {
		l := corev1.ResourceList{}
		for _, name := range names {
			if rapid.Bool().Draw(t, "has "+string(name)) {
				l[name] = anyAmount().Draw(t, string(name))
			}
		}
		return l
	})
}

func anyThreshold() *rapid.Generator[Threshold] {
	return rapid.Custom(func(t *rapid.T) Threshold {
		s := rapid.SampledFrom([]string{"0%", "0.1%", "5%", "12.5%", "33.333%", "99.9%", "100%", "1", "100Mi", "2Gi", "64Ti"}).Draw(t, "threshold")
		th, err := ParseThreshold(s)
		if err != nil {
			t.Fatal(err)
		}
		return th
	})
}

func anyNode(t *rapid.T) (corev1.ResourceList, Reserved) {
	reservables := []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", PID}
	capacity := anyList(append(reservables, "pods", "hugepages-2Mi", "hugepages-1Gi", "example.com/gpu")...).Draw(t, "capacity")
	r := Reserved{
		Kube:            anyList(reservables...).Draw(t, "kube"),
		System:          anyList(reservables...).Draw(t, "system"),
		SystemCPUs:      rapid.IntRange(0, 4).Draw(t, "CPUs"),
		MemoryAvailable: anyThreshold().Draw(t, "memory.available"),
		NodefsAvailable: anyThreshold().Draw(t, "nodefs.available"),
	}
	if _, ok := capacity["example.com/gpu"]; ok {
		r.Unhealthy = anyList("example.com/gpu").Draw(t, "unhealthy")
	}
	return capacity, r
}

func TestPropertyTheExplanationSumsUp(t *testing.T) { rapid.Check(t, sumsUp) }

func FuzzCompute(f *testing.F) { f.Fuzz(rapid.MakeFuzz(sumsUp)) }

func sumsUp(t *rapid.T) {
	capacity, r := anyNode(t)
	result, err := Compute(capacity, r)
	short := map[corev1.ResourceName]bool{}
	for name, quantity := range capacity {
		left, without := quantity.DeepCopy(), quantity.DeepCopy()
		for _, term := range result.Terms {
			if term.Amount.Sign() < 0 {
				t.Fatalf("term %s is negative", term)
			}
			if term.Resource == name {
				left.Sub(term.Amount)
				if term.Cause != HugePages {
					without.Sub(term.Amount)
				}
			}
		}
		if without.Sign() < 0 {
			short[name] = true
		}
		if left.Sign() < 0 {
			left.Set(0)
		}
		got, ok := result.Allocatable[name]
		if name == PID {
			if ok || result.PIDs == nil {
				t.Fatal("process numbers are reported, or not explained")
			}
			got = *result.PIDs
		}
		if got.Cmp(left) != 0 || got.Sign() < 0 || got.Cmp(quantity) > 0 {
			t.Fatalf("%s: %s of %s is left, want %s", name, &got, &quantity, &left)
		}
	}
	if (err != nil) != (len(short) > 0) {
		t.Fatalf("error %v, short of %v", err, short)
	}
	if len(result.Allocatable) != len(result.Capacity) {
		t.Fatal("allocatable and capacity differ in resources")
	}
}

func TestPropertyMoreReservedIsNeverMoreOffered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, r := anyNode(t)
		less, _ := Compute(capacity, r)
		name := rapid.SampledFrom([]corev1.ResourceName{"cpu", "memory", "ephemeral-storage"}).Draw(t, "resource")
		grown := r.Kube[name].DeepCopy()
		grown.Add(anyAmount().Draw(t, "more"))
		r.Kube = r.Kube.DeepCopy()
		r.Kube[name] = grown
		after, _ := Compute(capacity, r)
		for name, quantity := range after.Allocatable {
			if before := less.Allocatable[name]; quantity.Cmp(before) > 0 {
				t.Fatalf("%s grew from %s to %s", name, &before, &quantity)
			}
		}
	})
}

// TestPropertyMoreCapacityIsNeverLessOffered adds whole bytes to whole bytes, as
// machines have them: a percentage is cut to whole bytes, so that a thousandth of a
// byte more can set a whole one aside.
func TestPropertyMoreCapacityIsNeverLessOffered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, r := anyNode(t)
		name := rapid.SampledFrom([]corev1.ResourceName{"cpu", "memory", "ephemeral-storage"}).Draw(t, "resource")
		if _, ok := capacity[name]; !ok {
			return
		}
		had, more := capacity[name].DeepCopy(), anyAmount().Draw(t, "more")
		if name != corev1.ResourceCPU {
			had.RoundUp(resource.Scale(0))
			more.RoundUp(resource.Scale(0))
		}
		capacity[name] = had
		less, _ := Compute(capacity, r)
		grown := had.DeepCopy()
		grown.Add(more)
		capacity[name] = grown
		after, _ := Compute(capacity, r)
		for name, quantity := range after.Allocatable {
			if before := less.Allocatable[name]; quantity.Cmp(before) < 0 {
				t.Fatalf("%s shrank from %s to %s", name, &before, &quantity)
			}
		}
	})
}
