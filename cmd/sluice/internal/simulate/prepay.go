package simulate

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/prepay"
)

// purse holds the calls that one process has bought of one key at one cost.
type purse struct {
	prepay.Purse
	most   int64       // the most calls of the next purchase, by the capacity of the policy
	result algo.Result // of one call of the last purchase
}

type purseID struct {
	key     *key
	process int
	cost    int64
}

// spend decides a call by what its process has bought ahead. If nothing is left, it buys as many calls as the process wants and as
// the policy allows now. Without Prepay, this is always one call.
func (r *Run) spend(k *key, c *Call) error {
	if r.options.Prepay.Calls == 0 {
		return r.step(k, c, c.Cost)
	}
	id := purseID{k, c.Process, c.Cost}
	p, at := r.purses[id], time.UnixMicro(c.At) // a clock that is ahead by a constant does not change For
	if p == nil {
		p = new(purse)
		r.purses[id] = p
	}
	if p.Spend(at) {
		c.Result, c.Prepaid = p.result, true
		return nil
	}
	wanted := p.Next(at, max(1, min(int64(r.options.Prepay.Calls), p.most)))
	fits, err := r.policy.Peek(k.state, time.UnixMicro(c.Now), c.Cost)
	if err != nil {
		return err
	}
	bought := int64(1)
	if fits.Allowed {
		bought = max(1, min(wanted, fits.Remaining/c.Cost))
	}
	if err := r.step(k, c, bought*c.Cost); err != nil {
		return err
	}
	if !c.Result.Allowed {
		p.Empty()
		return nil
	}
	c.Bought = bought - 1
	c.Result.Cost, c.Result.Paid = c.Cost, c.Cost
	c.Result.Available, c.Result.Refilled = c.Result.Remaining+c.Cost, 0
	p.Fill(at, r.options.Prepay.For, bought-1, wanted-1)
	p.most, p.result = c.Result.Limit/c.Cost/prepay.Share, c.Result
	return nil
}
