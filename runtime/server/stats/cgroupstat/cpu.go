package cgroupstat

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"time"
)

// clockTick is the unit of cpuacct.stat: USER_HZ is 100 on all architectures that
// Kubernetes runs on, times(2).
const clockTick = 10 * time.Millisecond

// readTime reads the time used.
func (r *Reader) readTime(p *page, group string, u *Usage) error {
	dir := r.time.dir(group)
	if !r.time.V2 {
		n, err := p.number(dir, "cpuacct.usage")
		u.CPU = nanoseconds(n)
		return err
	}
	return p.table(dir, "cpu.stat", func(key []byte, n uint64) {
		if string(key) == "usage_usec" {
			u.CPU = microseconds(n)
		}
	})
}

func nanoseconds(n uint64) time.Duration  { return time.Duration(min(n, Unlimited)) } //nolint:gosec // bounded
func microseconds(n uint64) time.Duration { return nanoseconds(min(n, Unlimited/1000) * 1000) }

// readCPU reads the parts of the time, and what bounds it. The group at the top lacks most
// of these files.
func (r *Reader) readCPU(p *page, group string, d *Detail) error {
	if r.time != nil && !r.time.V2 {
		err := p.table(r.time.dir(group), "cpuacct.stat", func(key []byte, n uint64) {
			switch string(key) {
			case "user":
				d.User = time.Duration(min(n, Unlimited/uint64(clockTick))) * clockTick //nolint:gosec // bounded
			case "system":
				d.System = time.Duration(min(n, Unlimited/uint64(clockTick))) * clockTick //nolint:gosec // bounded
			}
		})
		if ignoreGone(err) != nil {
			return err
		}
	}
	if r.cpu == nil {
		return nil
	}
	dir := r.cpu.dir(group)
	err := p.table(dir, "cpu.stat", func(key []byte, n uint64) {
		switch string(key) {
		case "user_usec":
			d.User = microseconds(n)
		case "system_usec":
			d.System = microseconds(n)
		case "nr_periods":
			d.Periods = n
		case "nr_throttled":
			d.Throttled = n
		case "throttled_usec": // v2
			d.ThrottledFor = microseconds(n)
		case "throttled_time": // v1
			d.ThrottledFor = nanoseconds(n)
		}
	})
	if ignoreGone(err) != nil {
		return err
	}
	if r.cpu.V2 {
		return readQuotaV2(p, dir, d)
	}
	return readQuotaV1(p, dir, d)
}

// readQuotaV1 reads the weight and the quota. A quota of -1 is none.
func readQuotaV1(p *page, dir string, d *Detail) error {
	var err error
	if d.Shares, err = p.number(dir, "cpu.shares"); err != nil {
		return ignoreGone(err)
	}
	period, err := p.number(dir, "cpu.cfs_period_us")
	if err != nil {
		return ignoreGone(err)
	}
	d.Period = microseconds(period)
	raw, err := p.read(filepath.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return ignoreGone(err)
	}
	quota, err := strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, "cpu.cfs_quota_us"), err)
	}
	if quota > 0 {
		d.Quota = time.Duration(quota) * time.Microsecond
	}
	return nil
}

// readQuotaV2 reads the weight, 1 to 10000, and "quota period", where the quota may be
// "max" (kernel: Documentation/admin-guide/cgroup-v2.rst).
func readQuotaV2(p *page, dir string, d *Detail) error {
	weight, err := p.number(dir, "cpu.weight")
	if err != nil {
		return ignoreGone(err)
	}
	d.Shares = sharesOf(weight)
	raw, err := p.read(filepath.Join(dir, "cpu.max"))
	if err != nil {
		return ignoreGone(err)
	}
	most, every, _ := bytes.Cut(bytes.TrimSpace(raw), []byte(" "))
	quota, err := parseNumber(most)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, "cpu.max"), err)
	}
	if period, err := parseNumber(every); err == nil {
		d.Period = microseconds(period)
	}
	if quota != Unlimited {
		d.Quota = microseconds(quota)
	}
	return nil
}

// sharesOf turns cpu.weight, 1 to 10000, into cpu.shares, 2 to 262144: the inverse of what
// kubelets and runtimes do
// (https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/2254-cgroup-v2).
func sharesOf(weight uint64) uint64 {
	weight = min(max(weight, 1), 10000)
	return 2 + (weight-1)*262142/9999
}
