package policy

import "github.com/pinch-robotics/pinch/policy/op"

// activate applies the activation of a vision or text block.
func activate(name string, x *op.Node) *op.Node {
	switch name {
	case ActQuickGELU: // x sigmoid(1.702 x), as CLIP's
		return op.Scale(op.SiLU(op.Scale(x, quickGELU)), 1/quickGELU)
	case ActGELUErf:
		return geluErf(x)
	}
	return op.GELU(x)
}

const quickGELU = 1.702

// logit of the normal distribution function as an odd polynomial: log(Phi(x)/(1-Phi(x))) is near x p(x^2). Fitted for the least greatest error of
// x Phi(x), which is 3.1e-6 over all x.
var logitPhi = [5]float64{1.5956562731276889, 0.07293757705908435, -0.00024972001576030624, -6.116267313785352e-05, 2.23820318851521e-06}

// geluErf is x Phi(x) with Phi(x) = (1 + tanh(l/2))/2 and l the logit of Phi.
func geluErf(x *op.Node) *op.Node {
	z := op.Mul(x, x)
	p := op.AddConst(op.Scale(z, logitPhi[4]/2), logitPhi[3]/2)
	for k := 2; k >= 0; k-- {
		p = op.AddConst(op.Mul(p, z), logitPhi[k]/2)
	}
	t := op.Tanh(op.Mul(p, x))
	return op.Mul(x, op.AddConst(op.Scale(t, 0.5), 0.5))
}
