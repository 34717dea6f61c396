package nftables

import (
	"context"
	"errors"
	"fmt"
	"slices"

	nft "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// tableFamily returns the kernel's number of a family.
func tableFamily(f proxier.Family) nft.TableFamily {
	if f == proxier.IPv6 {
		return nft.TableFamilyIPv6
	}
	return nft.TableFamilyIPv4
}

// table returns the Backend's table of a family.
func (b *Backend) table(f proxier.Family) *nft.Table {
	return &nft.Table{Name: b.cfg.Table, Family: b.kernelFamily(f)}
}

// usable returns those of Config.Families that the kernel has in nf_tables: a kernel can be
// built with IPv6 and without that (CONFIG_NF_TABLES_IPV6). It makes empty tables with the
// hooks, which nothing leads anywhere yet.
func (b *Backend) usable(ctx context.Context) ([]proxier.Family, error) {
	var out []proxier.Family
	for _, f := range b.cfg.Families {
		c, err := b.connect()
		if err != nil {
			return nil, err
		}
		newGeneration(program{assembler: assembler{family: f}}, b.table(f), 0).addTable(c.nft)
		switch err := b.flush(ctx); {
		case err == nil:
			out = append(out, f)
		case !isNotFound(err):
			return nil, fmt.Errorf("try nf_tables of %s: %w", f, err)
		}
	}
	return out, nil
}

// lacking says which families are not programmed though they should be; nil if none.
func (b *Backend) lacking() error {
	var errs []error
	for _, f := range b.cfg.Families {
		if !slices.Contains(b.families, f) {
			errs = append(errs, fmt.Errorf("%s is not programmed: %w", f, errLacking))
		}
	}
	return errors.Join(errs...)
}

// errLacking is why a family is not programmed.
var errLacking = fmt.Errorf("%w: nf_tables of this kernel does not have it (CONFIG_NF_TABLES_IPV4, CONFIG_NF_TABLES_IPV6, CONFIG_NFT_NAT, or a module of them)", proxier.ErrNotSupported)

// isNotFound reports that what a message is about is not there: a table, a whole family,
// or a type of chain that it asks for.
func isNotFound(err error) bool {
	return slices.ContainsFunc([]error{unix.ENOENT, unix.EAFNOSUPPORT, unix.EOPNOTSUPP},
		func(target error) bool { return errors.Is(err, target) })
}
