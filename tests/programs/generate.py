"""Draws programs: one to three motifs, which read each other's tensors."""
import motifs_maps
import motifs_products
from draft import Draft

MOTIFS = {**motifs_maps.MOTIFS, **motifs_products.MOTIFS}
EDGE_SHARE = 0.15
ATTEMPTS = 40


def generate(seed, const_share=0.3, only=None):
    """A draft whose program has an output; the same for the same arguments."""
    draft = Draft(seed, const_share=const_share)
    draft.edge = draft.chance(EDGE_SHARE)
    motifs = {m: w for m, w in MOTIFS.items() if only is None or m.__name__ in only}
    wanted, done = draft.random.choices((1, 2, 3), (5, 3, 1))[0], []
    for _ in range(ATTEMPTS):
        if len(done) == wanted:
            break
        motif = draft.random.choices(list(motifs), motifs.values())[0]
        if draft.attempt(motif):
            done.append(motif.__name__)
    if not done:
        return generate(seed + 1_000_003, const_share, only)
    draft.motifs = done
    draft.finish()
    return draft
