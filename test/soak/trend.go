package soak

import (
	"fmt"
	"slices"
)

// point is a value at a time.
type point struct{ x, y float64 }

// slope is the median of the slopes between all pairs of points (Theil and Sen), which a
// few outliers do not move. It is 0 with less than two points.
func slope(points []point) float64 {
	var slopes []float64
	for i, a := range points {
		for _, b := range points[i+1:] {
			if a.x != b.x {
				slopes = append(slopes, (b.y-a.y)/(b.x-a.x))
			}
		}
	}
	return median(slopes)
}

// median is the middle value, 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func megabytes(bytes float64) string { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }

func signed(bytes float64) string { return fmt.Sprintf("%+.1f MiB", bytes/(1<<20)) }
