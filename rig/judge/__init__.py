"""Persona adherence by a language model: `rig judge` (DSB-IFEval, section 4 and appendix D)."""
