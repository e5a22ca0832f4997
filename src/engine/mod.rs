//! What each instruction of PE, ACT, DVE, POOL, SP and DMA does and what it costs.
