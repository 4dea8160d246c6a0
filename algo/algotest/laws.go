package algotest

// A law is a promise, and a check that panics with a failure where the promise is broken.
// The position of a law in laws gives it a number, from 1.
type law struct {
	name     string
	sentence string
	check    func(*point)

	ops            []op // operations in histories, besides steps
	clockStepsBack bool // the clock of histories steps back
	limitChanges   bool // the limit of histories changes
	effort         effort
	more           []func(*search) *violation // searches
}

var adjusting = []op{refund, charge}

var laws = []law{
	{
		name: "Deterministic", check: deterministic, ops: adjusting, clockStepsBack: true,
		sentence: "the same arguments give the same result, and are not modified",
	},
	{
		name: "NewKeyIsEmpty", check: newKeyIsEmpty, ops: adjusting,
		sentence: "nil, empty bytes, the encoding of State{} and an expired state decide alike",
	},
	{
		name: "StateEncoding", check: stateEncoding, ops: adjusting, clockStepsBack: true,
		sentence: "a decoded and encoded state decides like the original; a newer format is refused with ErrStateVersion, " +
			"any other bytes with ErrState; no bytes cause a panic or a reset",
	},
	{
		name: "DenialKeepsState", check: denialKeepsState, ops: adjusting, clockStepsBack: true, limitChanges: true,
		sentence: "a denial and a refund of a full key return the same state, so nothing has to be written",
	},
	{
		name: "RetryIsExact", check: retryIsExact, ops: adjusting, clockStepsBack: true, limitChanges: true,
		sentence: "the same cost is denied until 1us before RetryAfter, and allowed at RetryAfter",
	},
	{
		name: "NextRefillIsExact", check: nextRefillIsExact, ops: adjusting, clockStepsBack: true, limitChanges: true,
		sentence: "Remaining does not grow before NextRefill, and has grown at NextRefill",
	},
	{
		name: "ResetIsExact", check: resetIsExact, ops: adjusting, clockStepsBack: true, limitChanges: true,
		sentence: "from ResetAfter on a state decides like a new key, and 1us earlier it does not",
	},
	{
		name: "BoundHolds", check: boundHolds, ops: []op{refund},
		more:     []func(*search) *violation{(*search).worstCases, (*search).adversaries},
		sentence: "the units admitted in any interval, net of refunds, are at most Bound",
	},
	{
		name: "ClockMayStepBack", check: clockMayStepBack, ops: adjusting, clockStepsBack: true,
		sentence: "if the clock steps back, nothing panics, the time of the state does not, and no more is admitted " +
			"than if the clock had stopped at its latest time",
	},
	{
		name: "DenialStaysTrue", check: denialStaysTrue, ops: []op{charge}, clockStepsBack: true,
		sentence: "a cost that is denied at t is still denied at t after any steps at times up to t",
	},
	{
		name: "CostsAddUp", check: costsAddUp, ops: adjusting, clockStepsBack: true,
		sentence: "two allowed steps of c1 and c2 at one instant equal one step of c1+c2",
	},
	{
		name: "LargerCostIsHarder", check: largerCostIsHarder, ops: adjusting, clockStepsBack: true, limitChanges: true,
		sentence: "a larger cost is never allowed where a smaller one is denied, and never waits for less time",
	},
	{
		name: "AccountsAddUp", check: accountsAddUp, ops: adjusting, clockStepsBack: true,
		sentence: "Available + Refilled - Paid == Remaining; Paid is 0 or Cost; a step is allowed if and only if Available + Refilled >= Cost",
	},
	{
		name: "LimitMayChange", check: limitMayChange, ops: adjusting,
		sentence: "if the limit changes, the units used stay used, and the new limit applies at once",
	},
	{
		name: "LimitIsReported", check: limitIsReported,
		effort:   effort{limits: 1, layer: 1, tries: 1, checks: 1, random: 2_000}, // histories do not matter
		sentence: "Limit returns the limit of the options",
	},
	{
		name: "TimeIsClamped", check: timeIsClamped, ops: adjusting, clockStepsBack: true,
		effort: effort{limits: 5, layer: 6, tries: 8, depth: 2, checks: 250, random: 6_000}, // many calls at every point
		sentence: "instants and waits are whole microseconds: a time decides like the microsecond that it is in, times before 1970 " +
			"like the first one, and times after 2112 like the last",
	},
	{
		name: "Concurrent", check: concurrent, ops: adjusting, clockStepsBack: true,
		effort:   effort{limits: 7, layer: 4, tries: 4, depth: 1, checks: 1, random: 8_000},
		sentence: "concurrent calls return what one goroutine gets",
	},
	{
		name: "AdjustsAtStateTime", check: adjustsAtStateTime, ops: adjusting, clockStepsBack: true,
		sentence: "a refund or charge by a clock that is behind the state pays what it would pay at the state's own time, " +
			"and leaves a state that decides alike from then on",
	},
	{
		name: "NoAllocations", check: noAllocations, ops: adjusting, clockStepsBack: true,
		effort:   effort{limits: 7, layer: 2, tries: 4, depth: 2, checks: 15, random: 150}, // a measurement is slow
		sentence: "a step does not allocate, if dst has room",
	},
	{
		name: "CostIsPositive", check: costIsPositive, ops: adjusting,
		effort:   effort{limits: 7, layer: 2, tries: 4, depth: 2, checks: 15, random: 500}, // the point hardly matters
		sentence: "a cost below 1 is refused with ErrCost",
	},
}
