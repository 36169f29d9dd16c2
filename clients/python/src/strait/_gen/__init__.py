__all__ = ['ttypes', 'constants', 'DfsService', 'DfsV2']
