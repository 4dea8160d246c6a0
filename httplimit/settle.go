package httplimit

import (
	"errors"
	"net/http"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
)

// serveSettled serves a request that is charged before, and settled after the response.
func (g *guard) serveSettled(w http.ResponseWriter, r *http.Request, next http.Handler) {
	reservation, d, err := g.limiter.Reserve(r.Context(), r, 1)
	if !g.admit(w, r, &d, err) {
		return
	}
	ctx, stop := reservation.Keep(r.Context())
	allowed := r
	if holdsUnits(d.Results) {
		allowed = r.WithContext(ctx)
	}
	recorder, completed := &responseRecorder{ResponseWriter: w}, false
	defer func() { // also if next or stop panics
		g.settle(WithResponse(allowed, recorder.response(completed)), reservation)
	}()
	defer stop()
	serveNext(next, recorder, r, allowed)
	completed = true
}

// settle corrects what a request was charged. r has the response.
func (g *guard) settle(r *http.Request, reservation *sluice.Reservation[*http.Request]) {
	unended := r.Context() // of WithResponse
	err := algo.ErrCost    // until the function that returns the cost has returned
	defer func() {
		if errors.Is(err, algo.ErrCost) { // that function has a fault
			_ = reservation.Release(unended)
		}
	}()
	if g.SettleRules {
		_, err = reservation.SettleFor(unended, r)
	} else {
		response, _ := ResponseTo(r)
		_, err = reservation.Settle(unended, g.Settle(r, response.Status, response.Written))
	}
}
